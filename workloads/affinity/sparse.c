#include "sparse.h"

#include "memory.h"
#include "random.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const struct grid SMALL_GRID = {6, 8, 5};

/* Elements that come one by one. */
struct elements {
    struct element *list;
    size_t count;
    random_state state;
};

static void add(struct elements *elements, size_t row, size_t column, double value) {
    elements->list[elements->count++] = (struct element){
        (int32_t)(row > column ? row : column), (int32_t)(row > column ? column : row), value};
}

/* Where those of each of `keys` keys begin: `count[key + 1]` of them there are, before. */
static void counts_to_begins(size_t *count, size_t keys) {
    for (size_t key = 0; key < keys; key++)
        count[key + 1] += count[key];
}

/* The elements in order of rows, then stably of columns: a counting sort of each. */
static bool from_elements(struct sparse *matrix, size_t rows, const struct element *elements,
                          size_t count) {
    size_t *in_row = memory_pages(rows + 1, sizeof *in_row);
    struct element *by_row = memory_pages(count + 1, sizeof *by_row);
    *matrix = (struct sparse){
        .rows = rows,
        .begin = memory_pages(rows + 2, sizeof *matrix->begin),
        .row = memory_pages(count + 1, sizeof *matrix->row),
        .value = memory_pages(count + 1, sizeof *matrix->value),
    };
    if (memory_refused())
        return false;
    memset(in_row, 0, (rows + 1) * sizeof *in_row);
    memset(matrix->begin, 0, (rows + 2) * sizeof *matrix->begin);
    for (size_t i = 0; i < count; i++) {
        in_row[elements[i].row + 1]++;
        matrix->begin[elements[i].column + 2]++;
    }
    counts_to_begins(in_row, rows);
    counts_to_begins(matrix->begin, rows + 1);
    for (size_t i = 0; i < count; i++)
        by_row[in_row[elements[i].row]++] = elements[i];
    /* Shifted by one, so that what the beginnings have moved to at last is the next one's. */
    for (size_t i = 0; i < count; i++) {
        const size_t at = matrix->begin[by_row[i].column + 1]++;
        matrix->row[at] = by_row[i].row;
        matrix->value[at] = by_row[i].value;
    }
    return true;
}

/* Makes each diagonal element the sum of its row's other absolute values, and 1. */
static bool dominate(struct sparse *matrix) {
    double *sum = memory_pages(matrix->rows + 1, sizeof *sum);
    if (memory_refused())
        return false;
    for (size_t i = 0; i < matrix->rows; i++)
        sum[i] = 1.0;
    for (size_t column = 0; column < matrix->rows; column++)
        for (size_t at = matrix->begin[column] + 1; at < matrix->begin[column + 1]; at++) {
            sum[column] += fabs(matrix->value[at]);
            sum[matrix->row[at]] += fabs(matrix->value[at]);
        }
    for (size_t column = 0; column < matrix->rows; column++)
        matrix->value[matrix->begin[column]] = sum[column];
    return true;
}

static bool finish(struct sparse *matrix, struct elements *elements, size_t rows) {
    for (size_t i = 0; i < rows; i++)
        add(elements, i, i, 0.0);
    return from_elements(matrix, rows, elements->list, elements->count) && dominate(matrix);
}

static bool start(struct elements *elements, size_t most, uint64_t seed) {
    *elements =
        (struct elements){memory_pages(most + 1, sizeof *elements->list), 0, random_seed(seed)};
    return !memory_refused();
}

static double draw(struct elements *elements) {
    elements->state *= RANDOM_MULTIPLIER;
    return random_symmetric(elements->state);
}

/* Of `count` things. */
static size_t draw_one(struct elements *elements, size_t count) {
    elements->state *= RANDOM_MULTIPLIER;
    return (size_t)(random_uniform(elements->state) * (double)count);
}

/* All unknowns of one node of a grid with all of another, or with one another. */
static void couple(struct elements *elements, const struct grid *grid, int node, int other) {
    for (int i = 0; i < grid->unknowns; i++)
        for (int j = 0; j < (node == other ? i : grid->unknowns); j++)
            add(elements, (size_t)node * (size_t)grid->unknowns + (size_t)i,
                (size_t)other * (size_t)grid->unknowns + (size_t)j, draw(elements));
}

bool sparse_make_grid(struct sparse *matrix, struct grid grid, uint64_t seed) {
    const size_t nodes = (size_t)grid.width * (size_t)grid.height;
    const size_t unknowns = (size_t)grid.unknowns;
    struct elements elements;
    if (!start(&elements, nodes * unknowns * (5 * unknowns + 1), seed))
        return false;
    size_t diagonal = 0;
    for (int y = 0; y < grid.height; y++)
        for (int x = 0; x < grid.width; x++) {
            const int node = y * grid.width + x;
            couple(&elements, &grid, node, node);
            if (x > 0)
                couple(&elements, &grid, node, node - 1);
            if (y > 0)
                couple(&elements, &grid, node, node - grid.width);
            for (int side = -1; side <= 1; side += 2) {
                if (y == 0 || x + side < 0 || x + side >= grid.width)
                    continue;
                if ((diagonal + 1) * DROPPED / COUPLINGS == diagonal * DROPPED / COUPLINGS)
                    couple(&elements, &grid, node, node - grid.width + side);
                diagonal++;
            }
        }
    return finish(matrix, &elements, nodes * unknowns);
}

bool sparse_make(struct sparse *matrix, enum structure structure, uint64_t seed) {
    enum { ROWS = 240, IN_A_ROW = 2, HALF_BAND = 7, BLOCK = 24 };
    if (structure == GRID)
        return sparse_make_grid(matrix, SMALL_GRID, seed);
    struct elements elements;
    if (!start(&elements, ROWS * (BLOCK + 2), seed))
        return false;
    for (size_t row = 1; row < ROWS; row++)
        switch (structure) {
        case RANDOM: { /* in two halves of the row, so that none comes twice */
            const size_t half = row / IN_A_ROW;
            add(&elements, row, half + draw_one(&elements, row - half), draw(&elements));
            if (half > 0)
                add(&elements, row, draw_one(&elements, half), draw(&elements));
            break;
        }
        case ARROW: /* whoever eliminates row 0 first fills the whole matrix */
            add(&elements, row, 0, draw(&elements));
            break;
        case BANDED:
            for (size_t column = row > HALF_BAND ? row - HALF_BAND : 0; column < row; column++)
                add(&elements, row, column, draw(&elements));
            break;
        default: /* dense blocks in a ring */
            for (size_t column = row / BLOCK * BLOCK; column < row; column++)
                add(&elements, row, column, draw(&elements));
            if (row % BLOCK == 0)
                add(&elements, row, row - BLOCK, draw(&elements));
        }
    if (structure == BLOCKS)
        add(&elements, ROWS - 1, 0, draw(&elements));
    return finish(matrix, &elements, ROWS);
}

/* A file that is read line by line, and why it is refused. */
struct reader {
    FILE *file;
    char line[1024];
    size_t number; /* of the line */
    char *why;
    size_t why_size;
};

__attribute__((format(printf, 2, 3))) static bool refuse(const struct reader *reader,
                                                         const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reader->why, reader->why_size, format, arguments);
    va_end(arguments);
    return false;
}

/* The next line that isn't empty; false at the end of the file. */
static bool next_line(struct reader *reader) {
    do {
        if (fgets(reader->line, sizeof reader->line, reader->file) == NULL)
            return false;
        reader->number++;
    } while (reader->line[strspn(reader->line, " \t\r\n")] == '\0');
    return true;
}

/* A whole number from 1 to `most` at `*at`, which is moved behind it. */
static bool take_index(char **at, size_t most, size_t *index) {
    char *end;
    *at += strspn(*at, " \t");
    if (**at < '0' || **at > '9')
        return false;
    const unsigned long long taken = strtoull(*at, &end, 10);
    *at = end;
    *index = (size_t)taken;
    return taken >= 1 && taken <= most;
}

static bool at_end(const char *text) { return text[strspn(text, " \t\r\n")] == '\0'; }

/* The first line: which of the forms it is. */
static bool read_banner(struct reader *reader, bool *pattern) {
    char word[4][32];
    if (!next_line(reader) || sscanf(reader->line, "%%%%MatrixMarket %31s %31s %31s %31s", word[0],
                                     word[1], word[2], word[3]) != 4)
        return refuse(reader, "line 1 isn't `%%%%MatrixMarket matrix coordinate real symmetric'");
    if (strcasecmp(word[0], "matrix") != 0 || strcasecmp(word[1], "coordinate") != 0)
        return refuse(reader, "it is a `%s %s', and a `matrix coordinate' is needed", word[0],
                      word[1]);
    *pattern = strcasecmp(word[2], "pattern") == 0;
    if (!*pattern && strcasecmp(word[2], "real") != 0 && strcasecmp(word[2], "integer") != 0)
        return refuse(reader, "its elements are `%s', and real, integer or pattern is needed",
                      word[2]);
    if (strcasecmp(word[3], "symmetric") != 0)
        return refuse(reader, "it is `%s', and only symmetric matrices have a Cholesky factor",
                      word[3]);
    return true;
}

/* The line of sizes, behind comments. No size is believed that the file can't hold. */
static bool read_sizes(struct reader *reader, bool pattern, size_t *rows, size_t *count) {
    struct stat about;
    do {
        if (!next_line(reader))
            return refuse(reader, "it ends before its line of sizes");
    } while (reader->line[0] == '%');
    char *at = reader->line;
    size_t columns;
    if (!take_index(&at, INT32_MAX, rows) || !take_index(&at, INT32_MAX, &columns) ||
        !take_index(&at, INT64_MAX, count) || !at_end(at))
        return refuse(reader,
                      "line %zu isn't `rows columns elements', each 1 or more and rows "
                      "below 2^31",
                      reader->number);
    if (*rows != columns)
        return refuse(reader, "it has %zu rows and %zu columns, and must be square", *rows,
                      columns);
    if (fstat(fileno(reader->file), &about) == 0 && S_ISREG(about.st_mode) &&
        *count > (size_t)about.st_size / strlen("1 1\n"))
        return refuse(reader, "line %zu tells of %zu elements, more than the file has room for",
                      reader->number, *count);
    if (!pattern && *count < *rows)
        return refuse(reader,
                      "it has %zu elements in %zu rows, so that some diagonal ones are 0 "
                      "and it isn't positive definite",
                      *count, *rows);
    return true;
}

/* An element's line. */
static bool read_element(struct reader *reader, bool pattern, size_t rows,
                         struct element *element) {
    char *at = reader->line, *end;
    size_t row, column;
    if (!take_index(&at, rows, &row) || !take_index(&at, rows, &column))
        return refuse(reader, "line %zu doesn't begin with a row and a column from 1 to %zu",
                      reader->number, rows);
    if (row < column)
        return refuse(reader,
                      "line %zu has an element above the diagonal, and a symmetric file "
                      "tells those below it",
                      reader->number);
    double value = -1.0;
    if (!pattern) {
        value = strtod(at, &end);
        if (end == at || !isfinite(value))
            return refuse(reader, "line %zu has no finite number behind row and column",
                          reader->number);
        at = end;
    }
    if (!at_end(at))
        return refuse(reader, "line %zu goes on behind its element", reader->number);
    *element = (struct element){(int32_t)row - 1, (int32_t)column - 1, value};
    return true;
}

/* Columns have to begin with the diagonal and to have every row once. */
static bool check_columns(const struct reader *reader, const struct sparse *matrix) {
    for (size_t column = 0; column < matrix->rows; column++) {
        const size_t first = matrix->begin[column], end = matrix->begin[column + 1];
        if (first == end || matrix->row[first] != (int32_t)column)
            return refuse(reader,
                          "column %zu has no diagonal element, so that it isn't positive "
                          "definite",
                          column + 1);
        for (size_t at = first + 1; at < end; at++)
            if (matrix->row[at] == matrix->row[at - 1])
                return refuse(reader, "row %d of column %zu comes twice", matrix->row[at] + 1,
                              column + 1);
    }
    return true;
}

/* The elements of an open file, whose banner and sizes were read. */
static bool read_elements(struct reader *reader, bool pattern, size_t rows, size_t count,
                          struct sparse *matrix) {
    const size_t most = count + (pattern ? rows : 0);
    /* Twice the elements, the matrix, and what is counted by rows. */
    const double needed =
        (double)most * (2.0 * sizeof(struct element) + 12.0) + (double)rows * 24.0;
    if (needed > (double)memory_left(1).bytes)
        return refuse(reader, "%zu rows and %zu elements take %.0f MiB, more than there is", rows,
                      count, needed / (1024.0 * 1024.0));
    struct element *elements = memory_pages(most, sizeof *elements);
    if (memory_refused())
        return refuse(reader, "the system refused memory for %zu elements", count);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (!next_line(reader))
            return refuse(reader, "it ends after %zu of its %zu elements", i, count);
        if (!read_element(reader, pattern, rows, &elements[kept]))
            return false;
        /* A pattern's diagonal says nothing: all of it comes below. */
        kept += !pattern || elements[kept].row != elements[kept].column;
    }
    if (next_line(reader))
        return refuse(reader, "line %zu comes after its last element", reader->number);
    for (size_t i = 0; pattern && i < rows; i++)
        elements[kept++] = (struct element){(int32_t)i, (int32_t)i, 0.0};
    if (!from_elements(matrix, rows, elements, kept))
        return refuse(reader, "the system refused memory for %zu elements", count);
    if (!check_columns(reader, matrix))
        return false;
    return !pattern || dominate(matrix);
}

bool sparse_read(struct sparse *matrix, const char *path, char *why, size_t why_size) {
    struct reader reader = {.file = fopen(path, "re"), .why = why, .why_size = why_size};
    if (reader.file == NULL)
        return refuse(&reader, "it can't be opened: %m");
    bool pattern = false;
    size_t rows = 0, count = 0;
    const bool is_read = read_banner(&reader, &pattern) &&
                         read_sizes(&reader, pattern, &rows, &count) &&
                         read_elements(&reader, pattern, rows, count, matrix);
    fclose(reader.file);
    return is_read;
}

bool sparse_reorder(const struct sparse *from, const int32_t *order, const int32_t *place,
                    struct sparse *to) {
    const size_t rows = from->rows, count = from->begin[rows];
    struct element *elements = memory_pages(count, sizeof *elements);
    if (memory_refused())
        return false;
    size_t next = 0;
    for (size_t i = 0; i < rows; i++) {
        const size_t column = (size_t)order[i];
        for (size_t at = from->begin[column]; at < from->begin[column + 1]; at++) {
            const int32_t a = place[from->row[at]], b = (int32_t)i;
            elements[next++] = (struct element){a > b ? a : b, a > b ? b : a, from->value[at]};
        }
    }
    return from_elements(to, rows, elements, count);
}

bool sparse_rows(const struct sparse *matrix, size_t **begin, int32_t **columns) {
    const size_t rows = matrix->rows;
    size_t *const next = memory_pages(rows + 2, sizeof *next);
    int32_t *const list = memory_pages(sparse_below_diagonal(matrix) + 1, sizeof *list);
    if (memory_refused())
        return false;
    memset(next, 0, (rows + 2) * sizeof *next);
    for (size_t column = 0; column < rows; column++)
        for (size_t at = matrix->begin[column] + 1; at < matrix->begin[column + 1]; at++)
            next[matrix->row[at] + 2]++;
    counts_to_begins(next, rows + 1);
    for (size_t column = 0; column < rows; column++)
        for (size_t at = matrix->begin[column] + 1; at < matrix->begin[column + 1]; at++)
            list[next[matrix->row[at] + 1]++] = (int32_t)column;
    *begin = next;
    *columns = list;
    return true;
}

void sparse_multiply(const struct sparse *matrix, const double *x, double *y) {
    memset(y, 0, matrix->rows * sizeof *y);
    for (size_t column = 0; column < matrix->rows; column++) {
        const size_t diagonal = matrix->begin[column];
        double sum = matrix->value[diagonal] * x[column];
        for (size_t at = diagonal + 1; at < matrix->begin[column + 1]; at++) {
            sum += matrix->value[at] * x[matrix->row[at]];
            y[matrix->row[at]] += matrix->value[at] * x[column];
        }
        y[column] += sum;
    }
}

double sparse_norm(const struct sparse *matrix, double *sums) {
    double largest = 0.0;
    memset(sums, 0, matrix->rows * sizeof *sums);
    for (size_t column = 0; column < matrix->rows; column++)
        for (size_t at = matrix->begin[column]; at < matrix->begin[column + 1]; at++) {
            sums[column] += fabs(matrix->value[at]);
            if (at != matrix->begin[column])
                sums[matrix->row[at]] += fabs(matrix->value[at]);
        }
    for (size_t i = 0; i < matrix->rows; i++)
        largest = fmax(largest, sums[i]);
    return largest;
}
