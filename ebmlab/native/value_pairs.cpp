// Energies of Potts models, and how often two sites have each pair of values. A state chooses one number of each pair's
// table (values, values), so that nothing is multiplied by the zeros of one-hot vectors.

#include <algorithm>
#include <cstdint>
#include <vector>

namespace {

constexpr int64_t READ = 64;    // states that are read at a time, so that what is written lies side by side
constexpr int64_t MOST = 2048;  // states whose energies are summed at a time: their values stay in the cache
constexpr int64_t TABLES = 4;   // read together; or counted by turns, so that no count waits for the last one

struct Values {  // of states: those of a site lie side by side
  const uint8_t* first;
  int64_t by_site, states, number;  // number: of values that a site may have

  const uint8_t* site(int64_t i) const { return first + i * by_site; }
  int64_t size() const { return number * number; }

  // Where the row of each state's value begins in a table, whose rows begin `width` numbers after each other.
  void rows(int64_t i, int64_t width, int32_t* out) const {
    for (int64_t n = 0; n < states; ++n) out[n] = site(i)[n] * static_cast<int32_t>(width);
  }
};

struct Pair {  // of sites
  int64_t first, second;
};

template <typename Number>
int read(const Number* x, int64_t by_state, int64_t by_site, int64_t states, int64_t sites, int64_t number, uint8_t* out,
         int threads) {
  int wrong = 0;
#pragma omp parallel num_threads(threads) if (threads > 1) reduction(| : wrong)
  {
    std::vector<uint8_t> found(READ * sites);
#pragma omp for schedule(static)
    for (int64_t begin = 0; begin < states; begin += READ) {
      const int64_t here = std::min(READ, states - begin);
      for (int64_t n = 0; n < here; ++n)
        for (int64_t i = 0; i < sites; ++i) {
          const Number* own = x + (begin + n) * by_state + i * by_site;
          int32_t zeros = 0, ones = 0, value = 0;
          for (int32_t a = 0; a < number; ++a) zeros += own[a] == 0, ones += own[a] == 1, value += own[a] == 1 ? a : 0;
          wrong |= ones != 1 || zeros != number - 1;
          found[n * sites + i] = static_cast<uint8_t>(value);
        }
      for (int64_t i = 0; i < sites; ++i)
        for (int64_t n = 0; n < here; ++n) out[i * states + begin + n] = found[n * sites + i];
    }
  }
  return wrong;
}

// Adds to each state's sum what it chooses of the tables of P pairs of one site with others.
template <int64_t P>
inline void add(Values values, const int32_t* rows, const Pair* pairs, const float* tables, float* sums) {
  const uint8_t* columns[P];
  for (int64_t k = 0; k < P; ++k) columns[k] = values.site(pairs[k].second);
  const int64_t size = values.size();
  for (int64_t n = 0; n < values.states; ++n) {
    const float* row = tables + rows[n];
    float sum = sums[n];
#pragma GCC unroll 4
    for (int64_t k = 0; k < P; ++k) sum += row[k * size + columns[k][n]];
    sums[n] = sum;
    asm volatile("");  // no vectors of gathered numbers, which take longer
  }
}

// Calls `take` with a table and with the entry that a state chooses, for each state; the tables take turns.
template <typename Take>
inline void choose(Values values, const int32_t* rows, const uint8_t* columns, Take take) {
  int64_t n = 0;
  for (; n + TABLES <= values.states; n += TABLES)
#pragma GCC unroll 4
    for (int64_t t = 0; t < TABLES; ++t) take(t, rows[n + t] + columns[n + t], n + t);
  for (; n < values.states; ++n) take(0, rows[n] + columns[n], n);
}

// Adds `weight` of each state, times a factor. Few states, which fill less than a table, are added to it one by one.
template <typename Entry, typename Number, typename Weight>
void count(Values values, const Pair* pairs, int64_t num_pairs, Weight weight, double factor, const int64_t* places,
           Number* out, int64_t width, int threads) {
  const int64_t size = values.size();
  const bool few = values.states < size;
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
    std::vector<Entry> tables(few ? 0 : TABLES * size);
    std::vector<int32_t> rows(values.states);
    int64_t last = -1;
#pragma omp for schedule(static)
    for (int64_t p = 0; p < num_pairs; ++p) {
      const uint8_t* columns = values.site(pairs[p].second);
      Number* table = out + places[p];
      if (pairs[p].first != last) values.rows(last = pairs[p].first, few ? width : values.number, rows.data());
      if (few) {
        for (int64_t n = 0; n < values.states; ++n)
          table[rows[n] + columns[n]] += static_cast<Number>(factor * weight(n));
        continue;
      }
      std::fill(tables.begin(), tables.end(), Entry{});
      choose(values, rows.data(), columns,
             [&](int64_t t, int64_t entry, int64_t n) { tables[t * size + entry] += weight(n); });
      for (int64_t a = 0; a < values.number; ++a)
        for (int64_t b = 0; b < values.number; ++b) {
          Entry sum{};
          for (int64_t t = 0; t < TABLES; ++t) sum += tables[t * size + a * values.number + b];
          table[a * width + b] += static_cast<Number>(factor * sum);
        }
    }
  }
}

template <typename Number>
void count(Values values, const Pair* pairs, int64_t num_pairs, const Number* weights, double factor,
           const int64_t* places, Number* out, int64_t width, int threads) {
  if (weights)
    count<double>(values, pairs, num_pairs, [=](int64_t n) { return weights[n]; }, factor, places, out, width, threads);
  else
    count<int32_t>(values, pairs, num_pairs, [](int64_t) { return 1; }, factor, places, out, width, threads);
}

}  // namespace

// The value of each site, (sites, states), of one-hot vectors x; returns 1 if one of them is none, else 0.
extern "C" int read_floats(const float* x, int64_t by_state, int64_t by_site, int64_t states, int64_t sites,
                           int64_t number, uint8_t* out, int threads) {
  return read(x, by_state, by_site, states, sites, number, out, threads);
}

extern "C" int read_bytes(const uint8_t* x, int64_t by_state, int64_t by_site, int64_t states, int64_t sites,
                          int64_t number, uint8_t* out, int threads) {
  return read(x, by_state, by_site, states, sites, number, out, threads);
}

// Energies (states) of couplings (pairs, number, number) and fields (sites, number).
extern "C" void energies(const uint8_t* values, int64_t states, int64_t sites, int64_t number, const Pair* pairs,
                         int64_t num_pairs, const float* couplings, const float* fields, float* out, int threads) {
  const int64_t most = std::min(MOST, (states + threads - 1) / threads);
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
    std::vector<float> total(most), part(most);
    std::vector<int32_t> rows(most);
#pragma omp for schedule(static)
    for (int64_t begin = 0; begin < states; begin += most) {
      const Values own{values + begin, states, std::min(most, states - begin), number};
      std::fill(total.begin(), total.end(), 0.0f);
      for (int64_t i = 0; i < sites; ++i)
        for (int64_t n = 0; n < own.states; ++n) total[n] -= fields[i * number + own.site(i)[n]];
      for (int64_t p = 0; p < num_pairs;) {  // a site's couplings are summed before they join the rest
        const int64_t i = pairs[p].first;
        own.rows(i, number, rows.data());
        std::fill(part.begin(), part.end(), 0.0f);
        for (; p + TABLES <= num_pairs && pairs[p + TABLES - 1].first == i; p += TABLES)
          add<TABLES>(own, rows.data(), pairs + p, couplings + p * own.size(), part.data());
        for (; p < num_pairs && pairs[p].first == i; ++p)
          add<1>(own, rows.data(), pairs + p, couplings + p * own.size(), part.data());
        for (int64_t n = 0; n < own.states; ++n) total[n] -= part[n];
      }
      std::copy_n(total.data(), own.states, out + begin);
    }
  }
}

// Adds to tables (number, number) how many states have each two values at a pair of sites, times a factor; with weights
// (states) the sum of theirs. Rows of a table begin `width` numbers after each other, the first `places` after `out`.
extern "C" void count_floats(const uint8_t* values, int64_t states, int64_t number, const Pair* pairs, int64_t num_pairs,
                             const float* weights, double factor, const int64_t* places, float* out, int64_t width,
                             int threads) {
  count({values, states, states, number}, pairs, num_pairs, weights, factor, places, out, width, threads);
}

extern "C" void count_doubles(const uint8_t* values, int64_t states, int64_t number, const Pair* pairs,
                              int64_t num_pairs, const double* weights, double factor, const int64_t* places,
                              double* out, int64_t width, int threads) {
  count({values, states, states, number}, pairs, num_pairs, weights, factor, places, out, width, threads);
}
