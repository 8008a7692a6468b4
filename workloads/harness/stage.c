#include "stage.h"

#include "memory.h"

void stage_record(struct stage *stage) {
    const double now = omp_get_wtime();
    if (stage->tasks == stage->capacity) {
        const size_t capacity = stage->capacity == 0 ? 1024 : 2 * stage->capacity;
        double *seconds = memory_pages(capacity, sizeof *seconds);
        if (seconds == NULL) {
            stage->timed = false;
            return;
        }
        for (size_t task = 0; task < stage->tasks; task++)
            seconds[task] = stage->seconds[task];
        stage->seconds = seconds;
        stage->capacity = capacity;
    }
    stage->seconds[stage->tasks++] = now - stage->since;
    /* Asked again, so that growing the array is nobody's time. */
    stage->since = omp_get_wtime();
}

void stage_write(const struct stage *stage, FILE *file) {
    if (stage->tasks == 0)
        return;
    fprintf(file, "{\"name\": \"%s\", \"rounds\": %d, ", stage->name, stage->rounds);
    if (stage->rows > 0)
        fprintf(file, "\"wavefront\": [%d, %d], ", stage->rows, stage->columns);
    fprintf(file, "\"order\": \"%s\", \"passes\": %.6g, \"parts\": [",
            stage->order == IN_PASSES ? "blocked" : "random", stage->passes);
    const char *separator = "";
    for (int i = 0; i < STAGE_PARTS; i++) {
        const struct part *part = &stage->parts[i];
        if (part->what == NULL)
            continue;
        fprintf(file, "%s{\"what\": \"%s\", \"bytes\": %.6g, \"again\": %s, \"kept\": %.6g}",
                separator, part->what, part->bytes, part->again ? "true" : "false", part->kept);
        separator = ", ";
    }
    fprintf(file, "], \"us\": [");
    for (size_t task = 0; task < stage->tasks; task++)
        fprintf(file, "%s%.3f", task == 0 ? "" : ", ", 1e6 * stage->seconds[task]);
    fprintf(file, "]}\n");
}
