/*
 * A database under transactions, in place of the report's Oracle, of which it says no more: a real
 * PostgreSQL, started for the run in a folder of its own with a socket there and no other way in.
 * Transactions are those of TPC-B in the small: a teller of a branch changes an account (TPC
 * Benchmark B, revision 2.0, 1994, clause 1.2). pgbench sends them, each client to a server process
 * of its own; there are as many as threads are asked for. What is timed is a fixed number of them.
 *
 * Money is neither made nor lost: accounts, tellers and branches have the same sum as the history,
 * each of them is what the history says of it, and the history has every transaction once.
 */
#include "program.h"
#include "scratch.h"

#include <glob.h>
#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Tellers and accounts of a branch. TPC-B has ten times the accounts. */
enum { TELLERS = 10, ACCOUNTS = 10000 };

/* More connections than this are for servers that are set up for it. */
enum { MOST_CLIENTS = 64 };

/* Branches, which transactions meet at, and how many transactions there are. */
static const struct {
    int branches, transactions;
} CLASSES[] = {{8, 2000}, {32, 8000}, {64, 32000}, {256, 128000}, {512, 512000}, {1024, 2048000}};

/* What is asked for. A part of a class has all of its branches, and as much fewer accounts in each
   as transactions. */
struct load {
    size_t class;
    int branches, accounts, transactions;
    int clients;
};

static struct load load_of(size_t class, int part_of, int clients) {
    return (struct load){class, CLASSES[class].branches, ACCOUNTS / part_of,
                         CLASSES[class].transactions / part_of, clients};
}

static const uint64_t SEED = 314159265;

/* What has to be there of PostgreSQL, and where. */
enum { INITDB, POSTGRES, PSQL, PGBENCH, TOOLS };
static const char *const TOOL_NAMES[TOOLS] = {"initdb", "postgres", "psql", "pgbench"};
static char tools[TOOLS][4096];

/* How long the server may take until it answers. */
enum { READY_WITHIN_MS = 60000 };

static const char SCHEMA[] =
    "CREATE TABLE branches (branch int PRIMARY KEY, balance bigint NOT NULL) WITH "
    "(fillfactor=50);\n"
    "CREATE TABLE tellers (teller int PRIMARY KEY, branch int NOT NULL, balance bigint NOT NULL)\n"
    "  WITH (fillfactor=50);\n"
    "CREATE TABLE accounts (account int PRIMARY KEY, branch int NOT NULL, balance bigint NOT "
    "NULL,\n"
    "  filler char(84) NOT NULL);\n"
    "CREATE TABLE history (account int NOT NULL, teller int NOT NULL, branch int NOT NULL,\n"
    "  delta bigint NOT NULL, at timestamp NOT NULL, server int NOT NULL, filler char(22));\n"
    "INSERT INTO branches SELECT i, 0 FROM generate_series(1, :branches) i;\n"
    "INSERT INTO tellers SELECT i, (i - 1) / :tellers + 1, 0\n"
    "  FROM generate_series(1, :branches * :tellers) i;\n"
    "INSERT INTO accounts SELECT i, (i - 1) / :accounts + 1, 0, ''\n"
    "  FROM generate_series(1, :branches * :accounts) i;\n"
    "VACUUM ANALYZE;\n"
    "CHECKPOINT;\n";

static const char TRANSACTION[] =
    "\\set teller random(1, :branches * :tellers)\n"
    "\\set branch (:teller - 1) / :tellers + 1\n"
    "\\set account random(1, :branches * :accounts)\n"
    "\\set delta random(-999999, 999999)\n"
    "BEGIN;\n"
    "UPDATE accounts SET balance = balance + :delta WHERE account = :account;\n"
    "SELECT balance FROM accounts WHERE account = :account;\n"
    "UPDATE tellers SET balance = balance + :delta WHERE teller = :teller;\n"
    "UPDATE branches SET balance = balance + :delta WHERE branch = :branch;\n"
    "INSERT INTO history VALUES\n"
    "  (:account, :teller, :branch, :delta, CURRENT_TIMESTAMP, pg_backend_pid(), '');\n"
    "COMMIT;\n";

/* What is asked afterwards, a number each, and what they are called. */
static const char QUESTIONS[] =
    "SELECT count(*) FROM history;\n"
    "SELECT sum(balance) - (SELECT coalesce(sum(delta), 0) FROM history) FROM accounts;\n"
    "SELECT sum(balance) - (SELECT coalesce(sum(delta), 0) FROM history) FROM tellers;\n"
    "SELECT sum(balance) - (SELECT coalesce(sum(delta), 0) FROM history) FROM branches;\n"
    "SELECT count(*) FROM (SELECT account, balance FROM accounts WHERE balance <> 0 EXCEPT\n"
    "  SELECT account, sum(delta) FROM history GROUP BY account) wrong;\n"
    "SELECT count(*) FROM (SELECT teller, balance FROM tellers WHERE balance <> 0 EXCEPT\n"
    "  SELECT teller, sum(delta) FROM history GROUP BY teller) wrong;\n"
    "SELECT count(*) FROM (SELECT branch, balance FROM branches WHERE balance <> 0 EXCEPT\n"
    "  SELECT branch, sum(delta) FROM history GROUP BY branch) wrong;\n"
    "SELECT count(DISTINCT server) FROM history;\n";

enum answer {
    HISTORY,
    ACCOUNTS_OFF,
    TELLERS_OFF,
    BRANCHES_OFF,
    WRONG_ACCOUNTS,
    WRONG_TELLERS,
    WRONG_BRANCHES,
    SERVERS,
    ANSWERS
};

static bool is_there(const char *folder) {
    for (int i = 0; i < TOOLS; i++) {
        if (snprintf(tools[i], sizeof tools[i], "%s/%s", folder, TOOL_NAMES[i]) >=
                (int)sizeof tools[i] ||
            access(tools[i], X_OK) != 0)
            return false;
    }
    return true;
}

/* Finds PostgreSQL: on the PATH, or the newest one where Debian keeps its versions. */
static bool find_tools(void) {
    bool all = true;
    for (int i = 0; i < TOOLS; i++)
        all &= scratch_on_path(TOOL_NAMES[i], tools[i], sizeof tools[i]);
    if (all)
        return true;
    glob_t found;
    int newest = 0;
    const char *folder = NULL;
    if (glob("/usr/lib/postgresql/*/bin", 0, NULL, &found) != 0)
        return false;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const int version = atoi(found.gl_pathv[i] + strlen("/usr/lib/postgresql/"));
        if (version > newest && is_there(found.gl_pathv[i])) {
            newest = version;
            folder = found.gl_pathv[i];
        }
    }
    const bool is_found = folder != NULL && is_there(folder);
    globfree(&found);
    return is_found;
}

static bool write_text(const char *name, const char *text) {
    FILE *file = scratch_file(name, "we");
    if (file == NULL)
        return false;
    const bool is_written = fputs(text, file) >= 0;
    return fclose(file) == 0 && is_written;
}

/* Runs psql on a file, with the load's numbers as variables. */
static int psql(const char *file, const char *log, const struct load *load) {
    char branches_set[32], tellers_set[32], accounts_set[32];
    snprintf(branches_set, sizeof branches_set, "branches=%d", load->branches);
    snprintf(tellers_set, sizeof tellers_set, "tellers=%d", TELLERS);
    snprintf(accounts_set, sizeof accounts_set, "accounts=%d", load->accounts);
    return scratch_run((const char *[]){tools[PSQL],
                                        "-X",
                                        "-q",
                                        "-A",
                                        "-t",
                                        "-h",
                                        scratch_folder(),
                                        "-U",
                                        "stayput",
                                        "-v",
                                        "ON_ERROR_STOP=1",
                                        "-v",
                                        branches_set,
                                        "-v",
                                        tellers_set,
                                        "-v",
                                        accounts_set,
                                        "-f",
                                        file,
                                        "postgres",
                                        NULL},
                       log);
}

/* Memory for the tables, a page of 8 KiB for 60 rows or so, and for their changes. */
static uint64_t buffers_mib(size_t class) {
    return 32 + (uint64_t)CLASSES[class].branches * ACCOUNTS / 60 * 8 / 1024 * 2;
}

/* Starts the server and waits until it answers. -1, and a sentence, when it doesn't. */
static pid_t start_server(const struct load *load, struct result *result) {
    char last[512], buffers[48], connections[48];
    snprintf(buffers, sizeof buffers, "shared_buffers=%lluMB",
             (unsigned long long)buffers_mib(load->class));
    snprintf(connections, sizeof connections, "max_connections=%d", load->clients + 8);
    const char *const initdb[] = {tools[INITDB], "-D",        "data",        "-A", "trust", "-U",
                                  "stayput",     "--no-sync", "--no-locale", "-E", "UTF8",  NULL};
    if (scratch_run(initdb, "initdb.log") != 0) {
        scratch_last_line("initdb.log", last, sizeof last);
        result_fail(result, "initdb failed: %s", last);
        return -1;
    }
    const pid_t server = scratch_start(
        (const char *[]){tools[POSTGRES], "-D", "data", "-k", scratch_folder(), "-c",
                         "listen_addresses=", "-c", "unix_socket_permissions=0700", "-c",
                         "autovacuum=off", "-c", buffers, "-c", connections, NULL},
        "server.log", SIGQUIT);
    for (int waited = 0; waited < READY_WITHIN_MS && !scratch_ended(server); waited += 50) {
        if (psql("nothing.sql", "ready.log", load) == 0)
            return server;
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    scratch_last_line("server.log", last, sizeof last);
    result_fail(result, "PostgreSQL doesn't answer: %s", last);
    return -1;
}

/* Some clients' transactions, as many for each. */
static pid_t start_load(const struct load *load, int clients, int transactions, uint64_t seed,
                        const char *log) {
    char text[6][48];
    snprintf(text[0], sizeof text[0], "%d", clients);
    snprintf(text[1], sizeof text[1], "%d", transactions);
    snprintf(text[2], sizeof text[2], "branches=%d", load->branches);
    snprintf(text[3], sizeof text[3], "tellers=%d", TELLERS);
    snprintf(text[4], sizeof text[4], "accounts=%d", load->accounts);
    snprintf(text[5], sizeof text[5], "--random-seed=%llu", (unsigned long long)seed);
    return scratch_start((const char *[]){tools[PGBENCH],
                                          "-n",
                                          "-h",
                                          scratch_folder(),
                                          "-U",
                                          "stayput",
                                          "-c",
                                          text[0],
                                          "-t",
                                          text[1],
                                          "-D",
                                          text[2],
                                          "-D",
                                          text[3],
                                          "-D",
                                          text[4],
                                          text[5],
                                          "-f",
                                          "transaction.sql",
                                          "postgres",
                                          NULL},
                         log, SIGKILL);
}

/* All transactions, of which some clients make one more than others where they don't come out
   even. */
static bool run_load(const struct load *load, struct result *result) {
    const int more = load->transactions % load->clients;
    const int each = load->transactions / load->clients;
    const double start = omp_get_wtime();
    const pid_t longer = more > 0 ? start_load(load, more, each + 1, SEED, "more.log") : 0;
    const pid_t other = start_load(load, load->clients - more, each, SEED + 1, "load.log");
    const int code = scratch_wait(other), longer_code = more > 0 ? scratch_wait(longer) : 0;
    result->seconds = omp_get_wtime() - start;
    if (code == 0 && longer_code == 0)
        return true;
    char last[512];
    scratch_last_line(code != 0 ? "load.log" : "more.log", last, sizeof last);
    result_fail(result, "pgbench failed: %s", last);
    return false;
}

/* Asks the server, and holds its answers against one another. */
static bool check(const struct load *load, struct result *result) {
    double answers[ANSWERS];
    char last[512];
    int given = 0;
    if (psql("questions.sql", "answers", load) == 0) {
        FILE *file = scratch_file("answers", "re");
        while (file != NULL && given < ANSWERS && fscanf(file, "%lf", &answers[given]) == 1)
            given++;
        if (file != NULL)
            fclose(file);
    }
    if (given < ANSWERS) {
        scratch_last_line("answers", last, sizeof last);
        result_fail(result, "PostgreSQL doesn't answer what became of the accounts: %s", last);
        return false;
    }
    result_check(result, "transactions", answers[HISTORY], load->transactions, 0.0);
    result_check(result, "balances of accounts less the history's", answers[ACCOUNTS_OFF], 0.0,
                 0.0);
    result_check(result, "balances of tellers less the history's", answers[TELLERS_OFF], 0.0, 0.0);
    result_check(result, "balances of branches less the history's", answers[BRANCHES_OFF], 0.0,
                 0.0);
    result_check_below(result, "wrong accounts", answers[WRONG_ACCOUNTS], 0.0);
    result_check_below(result, "wrong tellers", answers[WRONG_TELLERS], 0.0);
    result_check_below(result, "wrong branches", answers[WRONG_BRANCHES], 0.0);
    result_check(result, "server processes with transactions", answers[SERVERS], load->clients,
                 0.0);
    result->working = (int)answers[SERVERS];
    return true;
}

static void serve(size_t class, struct result *result) {
    const int threads = omp_get_max_threads();
    const int clients = threads < MOST_CLIENTS ? threads : MOST_CLIENTS;
    const struct load load = load_of(class, result->part_of, clients);
    char last[512];
    if (!write_text("schema.sql", SCHEMA) || !write_text("transaction.sql", TRANSACTION) ||
        !write_text("questions.sql", QUESTIONS) || !write_text("nothing.sql", "")) {
        result_fail(result, "%s can't be written to: %m", scratch_folder());
        return;
    }
    const pid_t server = start_server(&load, result);
    if (server < 0)
        return;
    if (psql("schema.sql", "schema.log", &load) != 0) {
        scratch_last_line("schema.log", last, sizeof last);
        result_fail(result, "the tables can't be made: %s", last);
        return;
    }
    printf("branches: %d\n", load.branches);
    if (!run_load(&load, result) || !check(&load, result))
        return;
    result->threads = threads;
    result->operations = load.transactions;
    kill(server, SIGINT); /* it writes all that it has, and ends */
    result_check(result, "exit code of the server", scratch_wait(server), 0.0, 0.0);
}

static void run(size_t class, struct result *result) {
    char why[512];
    if (!find_tools()) {
        result_fail(result,
                    "there is no PostgreSQL, on the PATH or in /usr/lib/postgresql: install "
                    "Debian's postgresql");
        return;
    }
    if (!scratch_open("oltp", true, why, sizeof why)) {
        result_fail(result, "%s", why);
        return;
    }
    serve(class, result);
    scratch_close();
}

/* What the server keeps of its tables, twice, since the kernel does, too; and its processes. */
static uint64_t bytes_needed(size_t class, int threads) {
    return (2 * buffers_mib(class) + 8 * (uint64_t)threads) << 20;
}

static uint64_t useful_threads(size_t class) {
    (void)class;
    return MOST_CLIENTS;
}

const struct program PROGRAM = {
    .name = "affinity-oltp",
    .title = "transactions on a PostgreSQL server of its own",
    .has_parts = true,
    .bytes_needed = bytes_needed,
    .useful_threads = useful_threads,
    .run = run,
};
