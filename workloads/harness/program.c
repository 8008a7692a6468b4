#include "program.h"

#include "memory.h"
#include "ranks.h"
#include "share.h"

#include <complex.h>
#include <errno.h>
#include <math.h>
#include <omp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_OF(number) #number
#define TEXT(macro) TEXT_OF(macro)
#ifdef __clang__
#define COMPILER                                                                                   \
    "clang " TEXT(__clang_major__) "." TEXT(__clang_minor__) "." TEXT(__clang_patchlevel__)
#else
#define COMPILER "gcc " __VERSION__
#endif

/* Names the file to which a program with a graph writes its stages. */
static const char STAGES_VARIABLE[] = "STAYPUT_TASKS";

/* Says what is checked. */
static const char CHECKS_VARIABLE[] = "STAYPUT_CHECKS";

/* Says what part of a class is asked for. */
static const char PART_VARIABLE[] = "STAYPUT_PART";

enum { SMALLEST_PART = 16 };

static const char USEFUL_THREADS_OPTION[] = "--useful-threads";

enum { EXIT_VERIFIED = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

static const char CLASSES[] = "SWABCD";
static const char CLASSES_TEXT[] = "S, W, A, B, C or D";

static double mebibytes(uint64_t bytes) { return (double)bytes / (1024.0 * 1024.0); }

/* Counts a comparison, and says what stands behind it when it fails. */
static const char *verdict(struct result *result, bool holds) {
    result->checked += 1;
    result->mismatched += !holds;
    return holds ? "" : " WRONG";
}

void result_check(struct result *result, const char *name, double value, double reference,
                  double tolerance) {
    const double difference = fabs(value - reference);
    const bool matches = difference <= tolerance * fabs(reference); /* false for a NaN */
    printf("%s: %.17g (reference %.15g, relative difference %.1e, tolerance %.0e)%s\n", name, value,
           reference, difference == 0.0 ? 0.0 : difference / fabs(reference), tolerance,
           verdict(result, matches));
}

void result_check_complex(struct result *result, const char *name, double _Complex value,
                          double _Complex reference, double tolerance) {
    const double difference = cabs(value - reference) / cabs(reference);
    const bool matches = difference <= tolerance; /* false for a NaN */
    printf(
        "%s: %.17g%+.17gi (reference %.15g%+.15gi, relative difference %.1e, tolerance %.0e)%s\n",
        name, creal(value), cimag(value), creal(reference), cimag(reference), difference, tolerance,
        verdict(result, matches));
}

void result_check_below(struct result *result, const char *name, double value, double bound) {
    const bool holds = value <= bound; /* false for a NaN */
    printf("%s: %.6e (at most %.3e)%s\n", name, value, bound, verdict(result, holds));
}

/* Opens the file for stages, if one is named. False, with a sentence, when that can't be done. */
static bool open_stages(const char *name, FILE **stages) {
    const char *path = getenv(STAGES_VARIABLE);
    *stages = NULL;
    if (path == NULL || path[0] == '\0')
        return true;
    if (omp_get_max_threads() != 1) {
        fprintf(stderr, "%s: %s asks for tasks' times, which takes OMP_NUM_THREADS=1, not %d\n",
                name, STAGES_VARIABLE, omp_get_max_threads());
        return false;
    }
    *stages = fopen(path, "we");
    if (*stages == NULL)
        fprintf(stderr, "%s: cannot write %s, which %s names: %s\n", name, path, STAGES_VARIABLE,
                strerror(errno));
    return *stages != NULL;
}

/* What is to be checked. False, with a sentence, when that is asked for in no known word. */
static bool read_checks(const char *name, bool *only_own) {
    const char *what = getenv(CHECKS_VARIABLE);
    *only_own = what != NULL && strcmp(what, "own") == 0;
    if (what == NULL || what[0] == '\0' || *only_own || strcmp(what, "all") == 0)
        return true;
    fprintf(stderr, "%s: %s is `%s`; it may be `all`, or `own` for the result of the run alone\n",
            name, CHECKS_VARIABLE, what);
    return false;
}

/* What part of the class is asked for. False, with a sentence, when that is none. */
static bool read_part(const char *name, int *part_of) {
    const char *part = getenv(PART_VARIABLE);
    *part_of = 1;
    if (part == NULL || part[0] == '\0')
        return true;
    char *end = NULL;
    const long of = strncmp(part, "1/", 2) == 0 ? strtol(part + 2, &end, 10) : 0;
    *part_of = (int)of;
    if (of >= 1 && of <= SMALLEST_PART && *end == '\0')
        return true;
    fprintf(stderr, "%s: %s is `%s`; it may be a part from 1/1 to 1/%d\n", name, PART_VARIABLE,
            part, SMALLEST_PART);
    return false;
}

void result_time(struct result *result, const struct member *me, double start) {
    if (me->thread == 0) {
        result->threads = (int)ranks_total((uint64_t)me->team->threads);
        result->seconds = ranks_largest(omp_get_wtime() - start);
    }
}

/* Once, whatever the number of ranks. */
static void say(struct result *result, int exit_code, const char *format, va_list arguments) {
    result->exit_code = exit_code;
    if (ranks_mine() != 0)
        return;
    fflush(stdout);
    fprintf(stderr, "%s: ", PROGRAM.name);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
}

void result_fail(struct result *result, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say(result, EXIT_FAILED, format, arguments);
    va_end(arguments);
}

void result_refuse(struct result *result, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say(result, EXIT_USAGE, format, arguments);
    va_end(arguments);
}

void result_worked(struct result *result, bool worked) { result->working += worked; }

/* What the command line asks for. */
struct request {
    char letter;      /* of the class; 0 where there is a file */
    size_t class;     /* its number */
    const char *file; /* NULL where there is none */
};

__attribute__((format(printf, 1, 2))) static void refuse(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    struct result result;
    say(&result, EXIT_USAGE, format, arguments);
    va_end(arguments);
}

/* False, with a sentence, for what is no class and, where one may be given, no file. */
static bool read_request(const char *given, bool may_be_file, struct request *request) {
    const char *letter = strlen(given) == 1 ? strchr(CLASSES, given[0]) : NULL;
    if (letter != NULL) {
        *request = (struct request){.letter = *letter, .class = (size_t)(letter - CLASSES)};
        return true;
    }
    *request = (struct request){.file = given};
    if (may_be_file && PROGRAM.run_file != NULL && strpbrk(given, "./") != NULL)
        return true;
    refuse("there is no class `%s`; choose %s", given, CLASSES_TEXT);
    return false;
}

/* Whether the class fits into the memory of every node; false with a sentence of the first. */
static bool fits(const struct request *request) {
    if (request->file != NULL)
        return true;
    const uint64_t mine = PROGRAM.bytes_needed(request->class, omp_get_max_threads());
    const uint64_t needed = ranks_total_on_node(mine);
    const struct memory_left left = memory_left(ranks_on_node());
    const bool lacks = needed > left.bytes;
    const double me = ranks_mine(), first = -ranks_largest(lacks ? -me : -ranks_count());
    if (lacks && me == first)
        fprintf(stderr, "%s: class %c needs %.0f MiB of memory but %s leaves %.0f MiB\n",
                PROGRAM.name, request->letter, ceil(mebibytes(needed)), left.limit,
                floor(mebibytes(left.bytes)));
    return !ranks_any(lacks);
}

/* Runs what is asked for, and prints what came out. */
static int conduct(const struct request *request) {
    const struct program *program = &PROGRAM;
    share_join();
    struct result result = {.part_of = 1};
    if (program->has_graph && !open_stages(program->name, &result.stages))
        return EXIT_USAGE;
    if (program->checks_more && !read_checks(program->name, &result.only_own))
        return EXIT_USAGE;
    if (program->has_parts && !read_part(program->name, &result.part_of))
        return EXIT_USAGE;

    const char *library = ranks_library();
    printf("%s: %s\n", program->name, program->title);
    if (request->file == NULL)
        printf("class: %c\n", request->letter);
    else
        printf("file: %s\n", request->file);
    printf("compiler: %s\n", COMPILER);
    if (library != NULL)
        printf("MPI: %s\n", library);
    if (result.part_of > 1)
        printf("part of the class: 1/%d\n", result.part_of);
    if (result.only_own)
        printf("checks: of its own result alone\n");
    fflush(stdout);
    if (request->file == NULL)
        program->run(request->class, &result);
    else
        program->run_file(request->file, &result);
    const bool written = result.stages == NULL || fclose(result.stages) == 0;
    memory_give_back();
    if (result.exit_code != EXIT_VERIFIED)
        return result.exit_code;
    if (memory_refused() && request->file != NULL) {
        fprintf(stderr, "%s: the system refused the memory that %s needs\n", program->name,
                request->file);
        return EXIT_FAILED;
    }
    if (memory_refused()) {
        fprintf(stderr,
                "%s: class %c needs %.0f MiB of memory and the system refused to give them\n",
                program->name, request->letter,
                ceil(mebibytes(program->bytes_needed(request->class, omp_get_max_threads()))));
        return EXIT_FAILED;
    }
    const bool verified = result.checked > 0 && result.mismatched == 0;
    const double mops = result.operations / result.seconds * 1e-6;
    const unsigned long long working = ranks_total((uint64_t)result.working);
    if (library != NULL)
        printf("ranks: %d\n", ranks_count());
    printf("threads: %d\nthreads with work: %llu\nseconds: %.6f\n"
           "mops: %.*f\nverification: %s\n",
           result.threads, working, result.seconds, mops < 1.0 ? 9 : 2, mops,
           verified ? "successful" : "failed");
    if (fflush(stdout) != 0 || !written) {
        perror(program->name);
        return EXIT_FAILED;
    }
    return verified ? EXIT_VERIFIED : EXIT_FAILED;
}

/* Between the beginning and the end of the ranks. Rank 0 alone prints, and its exit code is all's.
 */
static int answer(int argc, char **argv) {
    struct request request;
    if (argc != 2) {
        refuse("give one argument, the class: %s", CLASSES_TEXT);
        return EXIT_USAGE;
    }
    if (!read_request(argv[1], true, &request))
        return EXIT_USAGE;
    if (!fits(&request))
        return EXIT_FAILED;
    if (ranks_mine() != 0 && freopen("/dev/null", "we", stdout) == NULL)
        ranks_give_up("/dev/null can't be opened");
    return ranks_from_first(conduct(&request));
}

int main(int argc, char **argv) {
    const struct program *program = &PROGRAM;
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        printf("%s: %s\n\n"
               "Usage: %s CLASS\n"
               "       %s %s CLASS\n"
               "%s\n"
               "CLASS is %s, from small to large. OMP_NUM_THREADS sets the number of threads.\n"
               "%s prints the most threads that can all find work in a class.\n"
               "%s%s%s"
               "Exit code: 0 verified, 1 wrong result or not enough memory, 2 wrong usage.\n",
               program->name, program->title, program->name, program->name, USEFUL_THREADS_OPTION,
               program->run_file == NULL
                   ? ""
                   : "In place of CLASS also a Matrix Market file, whose name has a . or a /.\n",
               CLASSES_TEXT, USEFUL_THREADS_OPTION,
               program->has_graph ? "STAYPUT_TASKS names a file for the stages of its task graph "
                                    "and its tasks' times, with one thread.\n"
                                  : "",
               program->checks_more
                   ? "STAYPUT_CHECKS=own has only the result of the run itself checked, quickly.\n"
                   : "",
               program->has_parts ? "STAYPUT_PART=1/8 asks for an eighth of the class.\n" : "");
        return EXIT_VERIFIED;
    }
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        const char *library = ranks_library();
        printf("%s %s (%s%s%s)\n", program->name, STAYPUT_VERSION, COMPILER,
               library == NULL ? "" : "; ", library == NULL ? "" : library);
        return EXIT_VERIFIED;
    }
    if (argc == 3 && strcmp(argv[1], USEFUL_THREADS_OPTION) == 0) {
        struct request request;
        if (!read_request(argv[2], false, &request))
            return EXIT_USAGE;
        printf("%llu\n", (unsigned long long)program->useful_threads(request.class));
        return EXIT_VERIFIED;
    }
    ranks_begin(&argc, &argv);
    const int code = answer(argc, argv);
    ranks_end();
    return code;
}
