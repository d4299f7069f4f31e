// Sweeps of an Ising model by single spins. A vector holds the same spin of as many chains, so that the local fields of
// all of them are sums of its neighbours' vectors, each times one number.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "exponential.hpp"
#include "random_words.hpp"
#include "vectors.hpp"

namespace {

constexpr int64_t VECTORS = 2, CHAINS = VECTORS * FLOATS;  // of a block, whose spins should fit a core's cache
constexpr float UNIT = 0x1p31f;

// Rows of the matrix J, in the order in which the sites are moved: no two of one colour interact.
struct Model {
  int64_t sites, entries;
  const int64_t* order;    // the site of each row
  const int64_t* offsets;  // where the entries of each row begin
  const int64_t* others;   // the column of each entry
  const float* weights;    // the entries
  const float* fields;     // h of each row's site

  int64_t end(int64_t row) const { return row + 1 < sites ? offsets[row + 1] : entries; }
};

inline Ints bits(Floats x) { return reinterpret_cast<Ints>(x); }
inline Floats floats(Ints x) { return reinterpret_cast<Floats>(x); }
inline Floats all(float x) { return Floats{} + x; }

const Ints SIGN = Ints{} + INT32_MIN;

// Each of the odd numbers below UNIT is as likely as the others: so the middle of each of 2^30 parts.
inline Floats uniform(RandomWords& random) {
  return __builtin_convertvector((reinterpret_cast<Ints>(random.next()) & ~SIGN) | 1, Floats);
}

// x = +1 with probability 1 / (1 + exp(-z)). With e = exp(-|z|) it has the other sign than z with odds e : 1.
struct HeatBath {
  Floats operator()(Floats z, Floats, RandomWords& random, Floats& finite) const {
    Floats e = exponential(floats(bits(z) | SIGN));
    finite += e;
    Ints against = uniform(random) * (1.f + e) < UNIT * e;
    return floats(((bits(z) ^ against) & SIGN) | bits(all(1.f)));
  }
};

// x flips with probability min(1, exp(-z x)), and `ties` where z is 0.
struct Metropolis {
  float ties;

  Floats operator()(Floats z, Floats x, RandomWords& random, Floats& finite) const {
    Floats cost = z * x, p = exponential(cost < 0.f ? all(0.f) : -cost);
    finite += p;
    p = cost == 0.f ? all(ties) : p;
    Ints flips = (cost < 0.f) | (uniform(random) < UNIT * p);
    return floats(bits(x) ^ (flips & SIGN));
  }
};

// The chains of a table (sites, by_site) from one on.
struct Chains {
  float* first;
  int64_t by_site, count;
  float* finite;   // (count): gets a number that is NaN if a local field was
  int32_t* flips;  // (count): gets how many spins have changed in all sweeps, if it is wanted
};

template <int64_t V, bool COUNTS, class Rule>
void move(const Model& m, Rule rule, const float* betas, int64_t sweeps, Chains chains, RandomWords random) {
  const int64_t width = V * FLOATS;
  std::vector<float> block(m.sites * width, 1.f);
  float* spins = block.data();
  for (int64_t i = 0; i < m.sites; ++i)
    std::copy_n(chains.first + i * chains.by_site, chains.count, spins + i * width);
  Floats finite[V] = {};
  Ints flips[V] = {};
  for (int64_t t = 0; t < sweeps; ++t) {
    Floats alike[V] = {};  // spins that have not changed, minus those that have
    for (int64_t k = 0; k < m.sites; ++k) {
      Floats local[V];
      for (int64_t v = 0; v < V; ++v) local[v] = all(m.fields[k]);
      for (int64_t e = m.offsets[k], end = m.end(k); e < end; ++e)
        for (int64_t v = 0; v < V; ++v) local[v] += m.weights[e] * load(spins + m.others[e] * width + v * FLOATS);
      float* own = spins + m.order[k] * width;
      for (int64_t v = 0; v < V; ++v, own += FLOATS) {
        Floats before = load(own), after = rule(2 * betas[t] * local[v], before, random, finite[v]);
        store(own, after);
        if (COUNTS) alike[v] += before * after;
      }
    }
    for (int64_t v = 0; COUNTS && v < V; ++v)
      flips[v] += __builtin_convertvector((static_cast<float>(m.sites) - alike[v]) * 0.5f, Ints);
  }
  for (int64_t i = 0; i < m.sites; ++i)
    std::copy_n(spins + i * width, chains.count, chains.first + i * chains.by_site);
  for (int64_t b = 0; b < chains.count; ++b) {
    chains.finite[b] = finite[b / FLOATS][b % FLOATS];
    if (COUNTS) chains.flips[b] = flips[b / FLOATS][b % FLOATS];
  }
}

// Each block has random numbers of its own, so that the number of threads changes nothing.
template <bool COUNTS, class Rule>
void move_all(const Model& m, Rule rule, const float* betas, int64_t sweeps, Chains chains, uint64_t seed, int threads) {
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1)
  for (int64_t block = 0; block < (chains.count + CHAINS - 1) / CHAINS; ++block) {
    int64_t b = block * CHAINS, here = std::min(CHAINS, chains.count - b);
    Chains own{chains.first + b, chains.by_site, here, chains.finite + b, COUNTS ? chains.flips + b : nullptr};
    auto moves = here > FLOATS ? move<VECTORS, COUNTS, Rule> : move<1, COUNTS, Rule>;
    moves(m, rule, betas, sweeps, own, RandomWords(seed, block));
  }
}

template <class Rule>
void sweep(const Model& m, Rule rule, const float* betas, int64_t sweeps, Chains chains, uint64_t seed, int threads) {
  auto moves = chains.flips ? move_all<true, Rule> : move_all<false, Rule>;
  moves(m, rule, betas, sweeps, chains, seed, threads);
}

}  // namespace

// Moves the chains of a table in place, by a sweep at each inverse temperature.
// It is a heat bath if `ties` is negative, else Metropolis flips.
extern "C" void sweep(int64_t sites, int64_t entries, const int64_t* order, const int64_t* offsets,
                      const int64_t* others, const float* weights, const float* fields, const float* betas,
                      int64_t sweeps, float ties, float* table, int64_t by_site, int64_t chains, float* finite,
                      int32_t* flips, uint64_t seed, int threads) {
  Model m{sites, entries, order, offsets, others, weights, fields};
  Chains moved{table, by_site, chains, finite, flips};
  if (ties < 0)
    sweep(m, HeatBath{}, betas, sweeps, moved, seed, threads);
  else
    sweep(m, Metropolis{ties}, betas, sweeps, moved, seed, threads);
}
