// Gibbs sampling of the sites of Potts models (Geman and Geman, IEEE Trans. PAMI 6, 1984), the same site in all chains.
// The logits of a site are the sum of one row for each of its neighbours, which the neighbour's value chooses.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "exponential.hpp"
#include "random_words.hpp"

namespace {

constexpr int64_t AT_ONCE = 4;   // chains whose rows are added in turn: an addition takes longer than a read
constexpr int64_t STRIP = 4;     // vectors of logits that stay in registers

// What a few neighbouring sites feel, from `begin` on: rows (n q, stride), of which row m q + b is that of the value b of
// the m-th of n others, and holds the q logits of one site after the other. `shift` (n) leads from the place of that
// value in a state, j q + b, to its row; a null pointer: the m-th is site m. What the sites add to each other is
// `within` (k, k q, q): row m q + b of site i is that of the value b of the m-th of them; a null pointer if they are one.
struct Table {
  int64_t begin, sites, count, stride;
  const float *rows, *within;
  const int64_t *others, *shift;
};

// N vectors of the sums of rows of C chains, from column `first` on; `last` columns of the last one are numbers.
template <int64_t N, int64_t C>
void add_rows(const Table& table, const int64_t* const* places, int64_t first, int64_t last, float* const* logits) {
  Floats sum[C][N] = {};
  for (int64_t m = 0; m < table.count; ++m) {
    const int64_t j = table.others ? table.others[m] : m, shift = table.shift ? table.shift[m] : 0;
    for (int64_t c = 0; c < C; ++c) {
      const float* row = table.rows + (places[c][j] + shift) * table.stride + first;
      for (int64_t n = 0; n + 1 < N; ++n) sum[c][n] += load(row + n * FLOATS);
      sum[c][N - 1] += load_some(row + (N - 1) * FLOATS, last);
    }
  }
  for (int64_t c = 0; c < C; ++c)
    for (int64_t n = 0; n < N; ++n) store(logits[c] + first + n * FLOATS, sum[c][n]);
}

template <int64_t C>
void add_all_rows(const Table& table, const int64_t* const* places, float* const* logits) {
  for (int64_t first = 0; first < table.stride; first += STRIP * FLOATS) {
    const int64_t left = std::min(table.stride - first, STRIP * FLOATS), vectors = (left + FLOATS - 1) / FLOATS;
    const int64_t last = left - (vectors - 1) * FLOATS;
    if (vectors == 1) add_rows<1, C>(table, places, first, last, logits);
    if (vectors == 2) add_rows<2, C>(table, places, first, last, logits);
    if (vectors == 3) add_rows<3, C>(table, places, first, last, logits);
    if (vectors == 4) add_rows<4, C>(table, places, first, last, logits);
  }
}

constexpr int64_t padded(int64_t count) { return (count + FLOATS - 1) / FLOATS * FLOATS; }

// Replaces logits by exp(logit - maximum), which is NaN if they are no law.
void weigh(float* logits, int64_t values) {
  for (int64_t a = values; a < padded(values); ++a) logits[a] = -INFINITY;
  Floats largest = load(logits);
  for (int64_t a = FLOATS; a < values; a += FLOATS) {
    Floats more = load(logits + a);
    largest = more > largest ? more : largest;
  }
  float maximum = largest[0];
  for (int64_t lane = 1; lane < FLOATS; ++lane) maximum = std::max(maximum, largest[lane]);
  for (int64_t a = 0; a < values; a += FLOATS) store(logits + a, exponential(load(logits + a) - maximum));
}

// The value whose part of the sum holds the level of a uniform number of 52 digits: never one of no weight.
int64_t chosen(const float* sums, int64_t values, uint64_t word) {
  const float total = sums[values - 1];
  const float level = std::min(static_cast<float>(static_cast<double>(word >> 12) * 0x1p-52 * total), total * (1 - 0x1p-24f));
  int value = 0;
  for (int64_t a = 0; a + 1 < values; ++a) value += sums[a] <= level;
  return value;
}

}  // namespace

// Redraws the sites of tables in this order, in place. A state `places` (chains, sites) holds j q + x_j for site j. Logits
// are multiplied by `factors` (chains), and `others` (sites, values) are added, unless these are null pointers. `apart`
// numbers lie between the others of two chains; 0 if all have the same. Adds to `totals` (chains) the sum of each law's
// weights.
extern "C" void redraw(int64_t* places, int64_t chains, int64_t sites, const Table* tables, int64_t values,
                       const float* factors, const float* others, int64_t apart, const int64_t* order, int64_t length,
                       uint64_t seed, float* totals, int threads) {
  const int64_t groups = (chains + WORDS - 1) / WORDS;
  int64_t widest = 0;
  for (int64_t n = 0; n < length; ++n) widest = std::max(widest, padded(tables[order[n]].stride));
  threads = static_cast<int>(std::min<int64_t>(threads, groups));
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
    std::vector<RandomWords> random;
    std::vector<float> memory(AT_ONCE * widest), laws(AT_ONCE * padded(values));
    std::vector<uint64_t> words;  // of the sites of a table
    std::vector<int64_t> own;
#pragma omp for schedule(static) nowait
    for (int64_t g = 0; g < groups; ++g) {
      own.push_back(g);
      random.emplace_back(seed, g);
    }
    for (int64_t n = 0; n < length; ++n) {
      const Table& table = tables[order[n]];
      for (size_t k = 0; k < own.size(); ++k) {
        const int64_t begin = own[k] * WORDS, end = std::min(begin + WORDS, chains);
        words.resize(table.sites * WORDS);
        for (int64_t i = 0; i < table.sites; ++i) store(&words[i * WORDS], random[k].next());
        for (int64_t b = begin; b < end; b += AT_ONCE) {
          const int64_t count = std::min(AT_ONCE, end - b);
          const int64_t* from[AT_ONCE];
          float* logits[AT_ONCE];
          for (int64_t c = 0; c < AT_ONCE; ++c) {
            from[c] = places + (b + std::min(c, count - 1)) * sites;
            logits[c] = memory.data() + c * widest;
          }
          if (count == 1)
            add_all_rows<1>(table, from, logits);
          else
            add_all_rows<AT_ONCE>(table, from, logits);
          for (int64_t i = 0; i < table.sites; ++i) {
            const int64_t site = table.begin + i, width = padded(values);
            for (int64_t c = 0; c < count; ++c) {
              const int64_t* state = places + (b + c) * sites + table.begin;
              float* law = laws.data() + c * width;
              std::copy_n(logits[c] + i * values, values, law);
              for (int64_t m = 0; table.within && m < table.sites; ++m) {
                const float* row = table.within + (i * table.sites * values + state[m] - table.begin * values) * values;
                for (int64_t a = 0; a < values; ++a) law[a] += row[a];
              }
              for (int64_t a = 0; factors && a < values; ++a) law[a] *= factors[b + c];
              const float* added = others + (b + c) * apart;
              for (int64_t a = 0; others && a < values; ++a) law[a] += added[site * values + a];
              weigh(law, values);
            }
            float sums[AT_ONCE] = {};
            for (int64_t a = 0; a < values; ++a)  // of all chains in turn, as an addition waits for the one before it
              for (int64_t c = 0; c < AT_ONCE; ++c) laws[c * width + a] = sums[c] += laws[c * width + a];
            for (int64_t c = 0; c < count; ++c) {
              totals[b + c] += sums[c];
              places[(b + c) * sites + site] = site * values + chosen(laws.data() + c * width, values, words[i * WORDS + b + c - begin]);
            }
          }
        }
      }
    }
  }
}
