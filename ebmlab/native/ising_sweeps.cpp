// Sweeps of an Ising model by single spins. A vector holds the same spin of as many chains, so that the local fields of
// all of them are sums of its neighbours' vectors, each times one number.

#include <algorithm>
#include <cstdint>

#include "exponential.hpp"
#include "sweeps.hpp"

namespace {

constexpr int64_t VECTORS = 2, BLOCK = VECTORS * FLOATS;  // chains, whose spins should fit a core's cache

inline Ints bits(Floats x) { return reinterpret_cast<Ints>(x); }
inline Floats floats(Ints x) { return reinterpret_cast<Floats>(x); }

const Ints SIGN = Ints{} + INT32_MIN;

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

template <int64_t V, bool COUNTS, class Rule>
void move(Rows rows, Rule rule, Betas betas, const Chains& chains, RandomWords random, float* spins) {
  const int64_t width = V * FLOATS;
  for (int64_t i = 0; i < rows.sites; ++i)
    std::copy_n(chains.first + i * chains.by_site, chains.count, spins + i * width);
  Floats finite[V] = {}, factors[V] = {};
  std::copy_n(chains.factors, chains.count, reinterpret_cast<float*>(factors));
  Ints flips[V] = {};
  for (float beta : betas) {
    Floats alike[V] = {};  // spins that have not changed, minus those that have
    for (int64_t k = 0; k < rows.sites; ++k) {
      Floats local[V];
      for (int64_t v = 0; v < V; ++v) local[v] = all(rows.fields[k]);
      for (int64_t e = rows.offsets[k], end = rows.end(k); e < end; ++e) {
        const float* other = spins + rows.others[e] * width;
        for (int64_t v = 0; v < V; ++v) local[v] += rows.weights[e] * load(other + v * FLOATS);
      }
      float* own = spins + rows.order[k] * width;
      for (int64_t v = 0; v < V; ++v, own += FLOATS) {
        Floats before = load(own), after = rule(2 * beta * factors[v] * local[v], before, random, finite[v]);
        store(own, after);
        if (COUNTS) alike[v] += before * after;
      }
    }
    for (int64_t v = 0; COUNTS && v < V; ++v)
      flips[v] += __builtin_convertvector((static_cast<float>(rows.sites) - alike[v]) * 0.5f, Ints);
  }
  for (int64_t i = 0; i < rows.sites; ++i)
    std::copy_n(spins + i * width, chains.count, chains.first + i * chains.by_site);
  for (int64_t b = 0; b < chains.count; ++b) {
    chains.finite[b] = finite[b / FLOATS][b % FLOATS];
    if (COUNTS) chains.flips[b] = flips[b / FLOATS][b % FLOATS];
  }
}

template <bool COUNTS, class Rule>
void sweep(const Rows& rows, Rule rule, Betas betas, const Chains& chains, uint64_t seed, int threads) {
  int64_t width = chains.count > FLOATS ? BLOCK : FLOATS;
  auto moved = [&](const Chains& own, const RandomWords& random, float* spins) {
    auto moves = own.count > FLOATS ? move<VECTORS, COUNTS, Rule> : move<1, COUNTS, Rule>;
    moves(rows, rule, betas, own, random, spins);
  };
  by_blocks<float>(chains, BLOCK, rows.sites * width, seed, threads, moved);
}

}  // namespace

// Moves chains of spins (sites, chains) in place, by a sweep at each inverse temperature, times a factor of each chain.
// It is a heat bath if `ties` is negative, else Metropolis flips.
extern "C" void sweep(int64_t sites, int64_t entries, const int64_t* order, const int64_t* offsets,
                      const int64_t* others, const float* weights, const float* fields, const float* betas,
                      int64_t sweeps, float ties, float* table, int64_t by_site, int64_t count, const float* factors,
                      float* finite, int32_t* flips, uint64_t seed, int threads) {
  Rows rows{sites, entries, order, offsets, others, weights, fields};
  Chains chains{table, by_site, 1, count, factors, finite, flips};
  auto bath = flips ? sweep<true, HeatBath> : sweep<false, HeatBath>;
  auto flip = flips ? sweep<true, Metropolis> : sweep<false, Metropolis>;
  if (ties < 0)
    bath(rows, HeatBath{}, Betas{betas, sweeps}, chains, seed, threads);
  else
    flip(rows, Metropolis{ties}, Betas{betas, sweeps}, chains, seed, threads);
}
