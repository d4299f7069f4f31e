// Products of a matrix of bits and one of float32, by the method of four Russians (Arlazarov, Dinic, Kronrod and
// Faradzhev, 1970). All 16 sums of four rows of the second matrix are made once. A row of the product then adds one of
// them where a plain product multiplies and adds four times.

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "vectors.hpp"

namespace {

constexpr int64_t COLUMNS = 32;                // of the product at once, a tile
constexpr int64_t ROWS = 256;                  // of the product at once, a block: 32 KiB with these columns
constexpr int64_t VECTORS = COLUMNS / FLOATS;
constexpr int64_t WORD = 32;                   // bits of a row at once
constexpr int64_t GROUP = 4, SUMS = 1 << GROUP, GROUPS = WORD / GROUP;
constexpr int UNROLLED = BYTES / 8;            // groups at once: with 16 registers, eight leave none for their places

struct Matrix {
  const float* first;
  int64_t by_row, by_column;  // steps in memory
};

// alpha times the sums of all subsets of 4 rows, a vector of each: row s of 16 adds the rows that are bits of s.
// Rows count 0 times where a subset leaves them out: one that is not finite leaves no number, as in a plain product.
// A sum is stored once it is made, so that a processor with 16 registers keeps the rest in them.
inline void store_sums(const Floats (&row)[GROUP], float* sums) {
  Floats sum[SUMS / 2];
  sum[0] = 0.f * row[0] + 0.f * row[1] + 0.f * row[2] + 0.f * row[3];
  store(sums, sum[0]);
#pragma GCC unroll 4
  for (int64_t i = 0; i < GROUP - 1; ++i)
#pragma GCC unroll 8
    for (int64_t s = 0; s < 1 << i; ++s) {
      sum[(1 << i) + s] = sum[s] + row[i];
      store(sums + ((1 << i) + s) * COLUMNS, sum[(1 << i) + s]);
    }
#pragma GCC unroll 8
  for (int64_t s = 0; s < SUMS / 2; ++s) store(sums + (SUMS / 2 + s) * COLUMNS, sum[s] + row[GROUP - 1]);
}

// The sums of 8 groups of rows: sums (8, 16, 32).
void sum_subsets(Matrix m, int64_t rows, int64_t columns, float alpha, float* sums) {
  for (int64_t g = 0; GROUP * g < std::min(rows, WORD); ++g, sums += SUMS * COLUMNS) {
    const float* first = m.first + GROUP * g * m.by_row;
    bool whole = columns == COLUMNS && GROUP * (g + 1) <= rows;
    alignas(BYTES) float copy[GROUP][COLUMNS];
    Matrix group{copy[0], COLUMNS, 1};
    if (whole && m.by_column == 1) {
      group = {first, m.by_row, 1};
    } else if (whole && m.by_row == 1) {
      transpose(first, m.by_column, COLUMNS, GROUP, copy[0], COLUMNS);
    } else {
      std::fill(copy[0], copy[0] + GROUP * COLUMNS, 0.f);
      for (int64_t i = 0; i < std::min(GROUP, rows - GROUP * g); ++i)
        for (int64_t j = 0; j < columns; ++j) copy[i][j] = first[i * m.by_row + j * m.by_column];
    }
    for (int64_t j = 0; j < COLUMNS; j += FLOATS) {
      Floats row[GROUP];
#pragma GCC unroll 4
      for (int64_t i = 0; i < GROUP; ++i) row[i] = alpha * load(group.first + i * group.by_row + j);
      store_sums(row, sums + j);
    }
  }
}

// Adds to N rows of the tile, for each group, the sum that the row's bits choose.
template <int64_t N>
inline void add_chosen(const uint32_t* words, const float* sums, int64_t groups, float* tile) {
  Floats total[N][VECTORS];
  for (int64_t n = 0; n < N; ++n)
    for (int64_t q = 0; q < VECTORS; ++q) total[n][q] = load(tile + n * COLUMNS + q * FLOATS);
#pragma GCC unroll UNROLLED
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t n = 0; n < N; ++n) {
      const float* chosen = sums + (g * SUMS + (words[n] >> GROUP * g) % SUMS) * COLUMNS;
      for (int64_t q = 0; q < VECTORS; ++q) total[n][q] += load(chosen + q * FLOATS);
    }
  for (int64_t n = 0; n < N; ++n)
    for (int64_t q = 0; q < VECTORS; ++q) store(tile + n * COLUMNS + q * FLOATS, total[n][q]);
}

void add_all(const uint32_t* words, int64_t rows, const float* sums, int64_t groups, float* tile) {
  int64_t b = 0;
  for (; b + 2 <= rows; b += 2) add_chosen<2>(words + b, sums, groups, tile + b * COLUMNS);
  for (; b < rows; ++b) add_chosen<1>(words + b, sums, groups, tile + b * COLUMNS);
}

// A word of so many numbers; `other` is no longer 0 if one of them is neither 0 nor 1.
inline uint32_t packed(const float* x, int64_t count, uint32_t& other) {
  uint32_t word = 0;
  for (int64_t i = 0; i < count; ++i) {
    word |= (x[i] == 1.f ? 1u : 0u) << i;
    other |= ((x[i] == 0.f) | (x[i] == 1.f)) ? 0u : 1u;
  }
  return word;
}

}  // namespace

// Packs x (rows, inner) into words (inner / 32, rows). Returns 1 if all numbers are 0 or 1, else 0, and stops early.
extern "C" int pack(const float* x, int64_t by_row, int64_t by_column, int64_t rows, int64_t inner, uint32_t* words) {
  uint32_t other = 0;
  if (by_column == 1) {  // a row after the other: its numbers lie side by side
    int64_t whole = inner / WORD;
    for (int64_t b = 0; b < rows && !other; ++b, x += by_row) {
      for (int64_t k = 0; k < whole; ++k) words[k * rows + b] = packed(x + k * WORD, WORD, other);  // vectorised
      if (whole * WORD < inner) words[whole * rows + b] = packed(x + whole * WORD, inner - whole * WORD, other);
    }
    return !other;
  }
  for (int64_t k = 0; k < inner && !other; k += WORD) {  // a bit of all rows after the other
    uint32_t* word = words + k / WORD * rows;
    std::fill(word, word + rows, 0u);
    for (int64_t i = 0; i < std::min(WORD, inner - k); ++i) {
      const float* bit = x + (k + i) * by_column;
      for (int64_t b = 0; b < rows; ++b) {
        word[b] |= (bit[b] == 1.f ? 1u : 0u) << i;
        other |= ((bit[b] == 0.f) | (bit[b] == 1.f)) ? 0u : 1u;
      }
    }
  }
  return !other;
}

// out (rows, columns) = start + alpha * bits (rows, inner) times matrix (inner, columns). The start is a matrix, or one
// row for all (start_by_row 0), or nothing (a null pointer); it may be out itself.
extern "C" void multiply(const uint32_t* words, int64_t rows, int64_t inner, int64_t columns, const float* matrix,
                         int64_t by_row, int64_t by_column, float alpha, const float* start, int64_t start_by_row,
                         float* out, int64_t out_by_row, int threads) {
  int64_t tiles = (columns + COLUMNS - 1) / COLUMNS, blocks = (rows + ROWS - 1) / ROWS;
#pragma omp parallel for collapse(2) schedule(static) num_threads(threads) if (threads > 1)
  for (int64_t t = 0; t < tiles; ++t)
    for (int64_t block = 0; block < blocks; ++block) {
      alignas(BYTES) float sums[GROUPS * SUMS * COLUMNS];
      alignas(BYTES) float tile[ROWS * COLUMNS];
      int64_t b0 = block * ROWS, here = std::min(ROWS, rows - b0);
      int64_t j0 = t * COLUMNS, width = std::min(COLUMNS, columns - j0);
      if (!start || width < COLUMNS) std::fill(tile, tile + here * COLUMNS, 0.f);
      for (int64_t b = 0; start && b < here; ++b)
        memcpy(tile + b * COLUMNS, start + (b0 + b) * start_by_row + j0, width * sizeof(float));
      for (int64_t k = 0; k < inner; k += WORD) {
        Matrix part{matrix + k * by_row + j0 * by_column, by_row, by_column};
        sum_subsets(part, inner - k, width, alpha, sums);
        const uint32_t* word = words + k / WORD * rows + b0;
        if (inner - k >= WORD)
          add_all(word, here, sums, GROUPS, tile);
        else
          add_all(word, here, sums, (inner - k + GROUP - 1) / GROUP, tile);
      }
      for (int64_t b = 0; b < here; ++b)
        memcpy(out + (b0 + b) * out_by_row + j0, tile + b * COLUMNS, width * sizeof(float));
    }
}
