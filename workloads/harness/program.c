#include "program.h"

#include "memory.h"
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

void result_time(struct result *result, const struct member *me, double start) {
    if (me->thread == 0) {
        result->threads = me->team->threads;
        result->seconds = omp_get_wtime() - start;
    }
}

static void say(struct result *result, int exit_code, const char *format, va_list arguments) {
    result->exit_code = exit_code;
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

int main(int argc, char **argv) {
    const struct program *program = &PROGRAM;
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        printf("%s: %s\n\n"
               "Usage: %s CLASS\n"
               "       %s %s CLASS\n"
               "%s\n"
               "CLASS is %s, from small to large. OMP_NUM_THREADS sets the number of threads.\n"
               "%s prints the most threads that can all find work in a class.\n"
               "%s"
               "Exit code: 0 verified, 1 wrong result or not enough memory, 2 wrong usage.\n",
               program->name, program->title, program->name, program->name, USEFUL_THREADS_OPTION,
               program->run_file == NULL
                   ? ""
                   : "In place of CLASS also a Matrix Market file, whose name has a . or a /.\n",
               CLASSES_TEXT, USEFUL_THREADS_OPTION,
               program->has_graph ? "STAYPUT_TASKS names a file for the stages of its task graph "
                                    "and its tasks' times, with one thread.\n"
                                  : "");
        return EXIT_VERIFIED;
    }
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("%s %s (%s)\n", program->name, STAYPUT_VERSION, COMPILER);
        return EXIT_VERIFIED;
    }
    const bool asks_for_threads = argc == 3 && strcmp(argv[1], USEFUL_THREADS_OPTION) == 0;
    if (argc != 2 && !asks_for_threads) {
        fprintf(stderr, "%s: give one argument, the class: %s\n", program->name, CLASSES_TEXT);
        return EXIT_USAGE;
    }
    const char *given = argv[argc - 1];
    const char *letter = strlen(given) == 1 ? strchr(CLASSES, given[0]) : NULL;
    const char *file = letter == NULL && program->run_file != NULL &&
                               strpbrk(given, "./") != NULL && !asks_for_threads
                           ? given
                           : NULL;
    if (letter == NULL && file == NULL) {
        fprintf(stderr, "%s: there is no class `%s`; choose %s\n", program->name, given,
                CLASSES_TEXT);
        return EXIT_USAGE;
    }
    const size_t class = file == NULL ? (size_t)(letter - CLASSES) : 0;
    if (asks_for_threads) {
        printf("%llu\n", (unsigned long long)program->useful_threads(class));
        return EXIT_VERIFIED;
    }

    const uint64_t needed = file == NULL ? program->bytes_needed(class, omp_get_max_threads()) : 0;
    const struct memory_left left = memory_left();
    if (needed > left.bytes) {
        fprintf(stderr, "%s: class %c needs %.0f MiB of memory but %s leaves %.0f MiB\n",
                program->name, *letter, ceil(mebibytes(needed)), left.limit,
                floor(mebibytes(left.bytes)));
        return EXIT_FAILED;
    }

    share_join();
    struct result result = {0};
    if (program->has_graph && !open_stages(program->name, &result.stages))
        return EXIT_USAGE;

    printf("%s: %s\n%s: %s\ncompiler: %s\n", program->name, program->title,
           file == NULL ? "class" : "file", given, COMPILER);
    fflush(stdout);
    if (file == NULL)
        program->run(class, &result);
    else
        program->run_file(file, &result);
    const bool written = result.stages == NULL || fclose(result.stages) == 0;
    memory_give_back();
    if (result.exit_code != EXIT_VERIFIED)
        return result.exit_code;
    if (memory_refused() && file != NULL) {
        fprintf(stderr, "%s: the system refused the memory that %s needs\n", program->name, file);
        return EXIT_FAILED;
    }
    if (memory_refused()) {
        fprintf(stderr,
                "%s: class %c needs %.0f MiB of memory and the system refused to give them\n",
                program->name, *letter, ceil(mebibytes(needed)));
        return EXIT_FAILED;
    }
    const bool verified = result.checked > 0 && result.mismatched == 0;
    const double mops = result.operations / result.seconds * 1e-6;
    printf("threads: %d\nthreads with work: %d\nseconds: %.6f\n"
           "mops: %.*f\nverification: %s\n",
           result.threads, result.working, result.seconds, mops < 1.0 ? 9 : 2, mops,
           verified ? "successful" : "failed");
    if (fflush(stdout) != 0 || !written) {
        perror(program->name);
        return EXIT_FAILED;
    }
    return verified ? EXIT_VERIFIED : EXIT_FAILED;
}
