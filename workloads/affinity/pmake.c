/*
 * The report's Pmake: a real `make -jN` with the real compiler, N being the number of threads that
 * is asked for, over C files that are generated: 24 of 460 lines on average in class S. What is
 * timed is that command alone. Nothing is optimised: the report says nothing of that, and files are
 * compiled so while they are written.
 *
 * The files hold functions whose statements are drawn by seed. What each returns is worked out
 * here, too, and the program that make has linked has to print the same.
 */
#include "memory.h"
#include "program.h"
#include "scratch.h"

#include <inttypes.h>
#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lines of a file on average, and how far the longest and the shortest are from that. A part of a
   class has as many files, of fewer lines. */
enum { LINES = 460, LINES_MORE_OR_LESS = 160 };

static const int CLASS_FILES[] = {24, 48, 96, 192, 384, 768};

static const uint64_t SEED = 314159265;

/* Variables of a function, elements of its table, cases of a switch and of the one around it. */
enum { VARIABLES = 6, TABLE = 16, CASES = 5 };

enum kind { ASSIGN, FIELD, LOOP, SWITCH, BRANCH, CALL, KINDS };

/* Lines that each kind takes. */
static const int KIND_LINES[KINDS] = {1, 2, 4, 2 * CASES + 4, 4, 1};

/* `target`, `a` and `b` are variables. */
struct statement {
    enum kind kind;
    int target, a, b, function;
    uint32_t number;
};

struct function {
    int file;
    size_t begin, end; /* of its statements */
    double cost;       /* statements that a call executes */
};

/* A call may not take more, or the program would run for longer than it compiles. */
static const double MOST_COST = 20000.0;

struct text {
    int files;
    int lines; /* of a file on average */
    struct function *functions;
    int function_count, function_room;
    struct statement *statements;
    size_t statement_count, statement_room;
    int *last_of; /* function of each file, which the program calls */
    uint64_t state;
};

/* Steele, Lea and Flood's SplitMix64 (OOPSLA 2014). */
static uint32_t draw(struct text *text, uint32_t below) {
    uint64_t z = text->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(((z ^ z >> 31) >> 32) * below >> 32);
}

static double cost_of(const struct text *text, const struct statement *statement) {
    switch (statement->kind) {
    case LOOP:
        return 2.0 * (1 + statement->number % 13);
    case CALL:
        return text->functions[statement->function].cost;
    default:
        return 1.0;
    }
}

/* A statement of at most `room` lines. */
static struct statement draw_statement(struct text *text, const struct function *function,
                                       int room) {
    struct statement statement = {
        .kind = (enum kind)draw(text, KINDS),
        .target = (int)draw(text, VARIABLES),
        .a = (int)draw(text, VARIABLES),
        .b = (int)draw(text, VARIABLES),
        .number = draw(text, UINT32_MAX) | 1,
    };
    if (statement.kind == CALL) {
        const int before = text->function_count - 1; /* of any file, but in front of this one */
        statement.function = before > 0 ? (int)draw(text, (uint32_t)before) : 0;
        if (before <= 0 || function->cost + cost_of(text, &statement) > MOST_COST)
            statement.kind = ASSIGN;
    }
    if (KIND_LINES[statement.kind] > room)
        statement.kind = ASSIGN;
    return statement;
}

/* Lines of a function around its statements, and of a file around its functions. */
enum { FUNCTION_LINES = 9, FILE_LINES = 2, STATEMENTS_LINES = 40 };

/* A file's functions, which take exactly so many lines. */
static void draw_file(struct text *text, int file, int lines) {
    for (int left = lines - FILE_LINES; left > 0;) {
        /* What is left at last is too little for two functions. */
        int room = left < 2 * (FUNCTION_LINES + STATEMENTS_LINES)
                       ? left
                       : FUNCTION_LINES + STATEMENTS_LINES;
        left -= room;
        struct function *function = &text->functions[text->function_count++];
        *function = (struct function){file, text->statement_count, 0, FUNCTION_LINES};
        for (room -= FUNCTION_LINES; room > 0;) {
            const struct statement statement = draw_statement(text, function, room);
            room -= KIND_LINES[statement.kind];
            function->cost += cost_of(text, &statement);
            text->statements[text->statement_count++] = statement;
        }
        function->end = text->statement_count;
    }
    text->last_of[file] = text->function_count - 1;
}

/* All files: as many above the average as below, by as much. */
static bool draw_text(struct text *text, int files, int part_of) {
    *text = (struct text){
        .files = files,
        .lines = LINES / part_of,
        .functions = memory_pages((size_t)files * LINES / 16, sizeof *text->functions),
        .statements = memory_pages((size_t)files * (LINES + 1), sizeof *text->statements),
        .last_of = memory_pages((size_t)files, sizeof *text->last_of),
        .state = SEED,
    };
    if (memory_refused())
        return false;
    for (int file = 0; file < files; file += 2) {
        const int more = (int)draw(text, (uint32_t)(LINES_MORE_OR_LESS / part_of));
        draw_file(text, file, text->lines + more);
        draw_file(text, file + 1, text->lines - more);
    }
    return true;
}

/* What the generated code holds of one call. */
struct frame {
    uint32_t v[VARIABLES], table[TABLE];
    uint32_t x, y; /* of its record */
};

static uint32_t rotate(uint32_t value, uint32_t by) { return value << by | value >> (32 - by); }

/* What a function returns: the statements as print_statement has them. */
static uint32_t call(const struct text *text, int number, uint32_t first, uint32_t second) {
    const struct function *function = &text->functions[number];
    struct frame frame = {.v = {first, second, 1, 2, 3, 4}, .x = first, .y = second};
    for (size_t i = function->begin; i < function->end; i++) {
        const struct statement *s = &text->statements[i];
        uint32_t *target = &frame.v[s->target];
        const uint32_t a = frame.v[s->a], b = frame.v[s->b];
        switch (s->kind) {
        case ASSIGN:
            *target = a * s->number + (b ^ *target);
            break;
        case FIELD:
            frame.x += a ^ s->number;
            frame.y = frame.x * 5 + frame.v[s->b];
            break;
        case LOOP:
            for (uint32_t n = 0; n < 1 + s->number % 13; n++) {
                *target = *target * s->number + frame.v[s->a] + n;
                frame.table[n % TABLE] ^= *target;
            }
            break;
        case SWITCH:
            switch (a % (CASES + 1)) {
            case 0 ... CASES - 1:
                *target = *target + (s->number ^ b * (a % (CASES + 1) + 3));
                break;
            default:
                *target ^= frame.y;
            }
            break;
        case BRANCH:
            if (a > b)
                *target -= s->number;
            else
                *target = rotate(*target, 1 + s->number % 31);
            break;
        default:
            *target += call(text, s->function, a, b & 255);
        }
    }
    uint32_t sum = frame.x ^ frame.y;
    for (int i = 0; i < VARIABLES; i++)
        sum = sum * 31 + frame.v[i];
    for (int i = 0; i < TABLE; i++)
        sum = sum * 31 + frame.table[i];
    return sum;
}

/* A statement as C. */
static void print_statement(FILE *file, const struct text *text, const struct statement *s) {
    const uint32_t number = s->number;
    switch (s->kind) {
    case ASSIGN:
        fprintf(file, "    v%d = v%d * UINT32_C(%" PRIu32 ") + (v%d ^ v%d);\n", s->target, s->a,
                number, s->b, s->target);
        break;
    case FIELD:
        fprintf(file,
                "    record.x += v%d ^ UINT32_C(%" PRIu32 ");\n"
                "    record.y = record.x * 5 + v%d;\n",
                s->a, number, s->b);
        break;
    case LOOP:
        fprintf(file,
                "    for (uint32_t n = 0; n < %" PRIu32 "; n++) {\n"
                "        v%d = v%d * UINT32_C(%" PRIu32 ") + v%d + n;\n"
                "        table[n %% %d] ^= v%d;\n"
                "    }\n",
                1 + number % 13, s->target, s->target, number, s->a, TABLE, s->target);
        break;
    case SWITCH:
        fprintf(file, "    switch (v%d %% %d) {\n", s->a, CASES + 1);
        for (int i = 0; i < CASES; i++)
            fprintf(file,
                    "    case %d: v%d = v%d + (UINT32_C(%" PRIu32 ") ^ v%d * %d);\n"
                    "        break;\n",
                    i, s->target, s->target, number, s->b, i + 3);
        fprintf(file, "    default:\n        v%d ^= record.y;\n    }\n", s->target);
        break;
    case BRANCH:
        fprintf(file,
                "    if (v%d > v%d)\n        v%d -= UINT32_C(%" PRIu32 ");\n"
                "    else\n        v%d = rotate(v%d, %" PRIu32 ");\n",
                s->a, s->b, s->target, number, s->target, s->target, 1 + number % 31);
        break;
    default:
        fprintf(file, "    v%d += function_%d(v%d, v%d & 255); /* file_%d.c */\n", s->target,
                s->function, s->a, s->b, text->functions[s->function].file);
    }
}

static void print_function(FILE *file, const struct text *text, int number) {
    const struct function *function = &text->functions[number];
    fprintf(file,
            "\nuint32_t function_%d(uint32_t v0, uint32_t v1) {\n"
            "    uint32_t table[%d] = {0}, v2 = 1, v3 = 2, v4 = 3, v5 = 4;\n"
            "    struct record record = {v0, v1};\n",
            number, TABLE);
    for (size_t i = function->begin; i < function->end; i++)
        print_statement(file, text, &text->statements[i]);
    fprintf(file,
            "    uint32_t sum = record.x ^ record.y;\n"
            "    sum = ((((((sum * 31 + v0) * 31 + v1) * 31 + v2) * 31 + v3) * 31 + v4) * 31 + "
            "v5);\n"
            "    for (int i = 0; i < %d; i++) sum = sum * 31 + table[i];\n"
            "    return sum;\n"
            "}\n",
            TABLE);
}

/* Closes a file of which all was written. */
static bool close_written(FILE *file) {
    const bool is_written = ferror(file) == 0;
    return fclose(file) == 0 && is_written;
}

static bool write_files(const struct text *text) {
    char name[32];
    for (int i = 0, number = 0; i < text->files; i++) {
        snprintf(name, sizeof name, "file_%d.c", i);
        FILE *file = scratch_file(name, "we");
        if (file == NULL)
            return false;
        fprintf(file, "/* Generated: file %d of %d. */\n#include \"all.h\"\n", i, text->files);
        for (; number <= text->last_of[i]; number++)
            print_function(file, text, number);
        if (!close_written(file))
            return false;
    }
    return true;
}

/* What every file includes, and the main program, which calls the last function of each. */
static bool write_header_and_main(const struct text *text) {
    FILE *header = scratch_file("all.h", "we"), *main = scratch_file("main.c", "we");
    if (header == NULL || main == NULL)
        return false;
    fprintf(header,
            "#pragma once\n#include <stdint.h>\n\nstruct record {\n    uint32_t x, y;\n};\n\n"
            "static inline uint32_t rotate(uint32_t value, uint32_t by) {\n"
            "    return value << by | value >> (32 - by);\n}\n\n");
    for (int i = 0; i < text->function_count; i++)
        fprintf(header, "uint32_t function_%d(uint32_t, uint32_t);\n", i);
    fprintf(main, "#include \"all.h\"\n#include <inttypes.h>\n#include <stdio.h>\n\n"
                  "int main(void) {\n");
    for (int i = 0; i < text->files; i++)
        fprintf(main, "    printf(\"%%\" PRIu32 \"\\n\", function_%d(%d, %d));\n", text->last_of[i],
                i, 2 * i + 1);
    fprintf(main, "    return 0;\n}\n");
    const bool is_written = close_written(header);
    return close_written(main) && is_written;
}

static bool write_makefile(const struct text *text) {
    FILE *file = scratch_file("Makefile", "we");
    if (file == NULL)
        return false;
    fprintf(file, "CC = cc\nCFLAGS = -O0\nOBJECTS = main.o");
    for (int i = 0; i < text->files; i++)
        fprintf(file, " file_%d.o", i);
    fprintf(file, "\nprogram: $(OBJECTS)\n\t$(CC) -o $@ $(OBJECTS)\n"
                  "%%.o: %%.c all.h\n\t$(CC) $(CFLAGS) -c -o $@ $<\n");
    return close_written(file);
}

/* Lines of what was written, as they are counted. */
static int count_lines(const struct text *text) {
    int lines = 0;
    for (int i = 0; i < text->files; i++) {
        char name[32];
        snprintf(name, sizeof name, "file_%d.c", i);
        FILE *file = scratch_file(name, "re");
        for (int c; file != NULL && (c = fgetc(file)) != EOF;)
            lines += c == '\n';
        if (file != NULL)
            fclose(file);
    }
    return lines;
}

/* How many lines that the program printed aren't what was worked out, or are missing. */
static int wrong_lines(const struct text *text) {
    int wrong = 0;
    FILE *file = scratch_file("output", "re");
    for (int i = 0; i < text->files; i++) {
        uint32_t printed;
        wrong += file == NULL || fscanf(file, "%" SCNu32, &printed) != 1 ||
                 printed != call(text, text->last_of[i], (uint32_t)i, 2 * (uint32_t)i + 1);
    }
    wrong += file != NULL && fscanf(file, "%*s") != EOF;
    if (file != NULL)
        fclose(file);
    return wrong;
}

static void build_and_check(const struct text *text, struct result *result) {
    if (!write_files(text) || !write_header_and_main(text) || !write_makefile(text)) {
        result_fail(result, "%s can't be written to: %m", scratch_folder());
        return;
    }
    const int threads = omp_get_max_threads();
    char jobs[16], last[256];
    snprintf(jobs, sizeof jobs, "-j%d", threads);
    const double start = omp_get_wtime();
    const int made = scratch_run((const char *[]){"make", "-s", jobs, NULL}, "make.log");
    result->seconds = omp_get_wtime() - start;
    if (made != 0) {
        scratch_last_line("make.log", last, sizeof last);
        result_fail(result, "make failed: %s", last);
        return;
    }
    result->threads = threads;
    result->working = threads < text->files ? threads : text->files;
    result->operations = (double)text->files * text->lines;
    printf("files: %d\nfunctions: %d\n", text->files, text->function_count);
    result_check(result, "lines", count_lines(text), (double)text->files * text->lines, 0.0);
    const int ran = scratch_run((const char *[]){"./program", NULL}, "output");
    result_check(result, "exit code of the program", ran, 0.0, 0.0);
    result_check_below(result, "wrong lines of its output", wrong_lines(text), 0.0);
}

static void run(size_t class, struct result *result) {
    char path[4096], why[256];
    struct text text;
    for (int i = 0; i < 2; i++) {
        const char *const needed = i == 0 ? "make" : "cc";
        if (!scratch_on_path(needed, path, sizeof path)) {
            result_fail(result, "there is no `%s' on the PATH: install Debian's make and gcc",
                        needed);
            return;
        }
    }
    /* Those of a make that we may be under. */
    unsetenv("MAKEFLAGS");
    unsetenv("MFLAGS");
    unsetenv("MAKELEVEL");
    if (!draw_text(&text, CLASS_FILES[class], result->part_of))
        return;
    if (!scratch_open("pmake", false, why, sizeof why)) {
        result_fail(result, "%s", why);
        return;
    }
    build_and_check(&text, result);
    scratch_close();
}

/* The text, and a compiler in each thread's place. */
static uint64_t bytes_needed(size_t class, int threads) {
    const uint64_t lines = (uint64_t)CLASS_FILES[class] * LINES;
    return lines * (sizeof(struct statement) + sizeof(struct function)) +
           (uint64_t)threads * (UINT64_C(48) << 20);
}

static uint64_t useful_threads(size_t class) { return (uint64_t)CLASS_FILES[class]; }

const struct program PROGRAM = {
    .name = "affinity-pmake",
    .title = "make -jN of generated C files, by the real compiler",
    .has_parts = true,
    .bytes_needed = bytes_needed,
    .useful_threads = useful_threads,
    .run = run,
};
