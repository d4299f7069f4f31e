// Sweeps of a Potts model by single sites, of which each is redrawn given the others. A vector holds the values of the
// same site in as many chains. A value's field is the sum of the couplings to those neighbours that have it.

#include <cmath>
#include <cstdint>

#include "exponential.hpp"
#include "sweeps.hpp"

namespace {

constexpr int64_t MOST = 64;  // values

// Values of the block's chains from one-hot vectors, and back.
void read(const Chains& chains, int64_t sites, int32_t* values) {
  for (int64_t i = 0; i < sites; ++i)
    for (int64_t b = 0; b < chains.count; ++b) {
      const float* one = chains.first + i * chains.by_site + b * chains.by_chain;
      int32_t value = 0;
      for (int32_t a = 1; a < chains.by_chain; ++a) value += one[a] == 1.f ? a : 0;
      values[i * FLOATS + b] = value;
    }
}

void write(const Chains& chains, int64_t sites, const int32_t* values) {
  for (int64_t i = 0; i < sites; ++i)
    for (int64_t b = 0; b < chains.count; ++b) {
      float* one = chains.first + i * chains.by_site + b * chains.by_chain;
      for (int32_t a = 0; a < chains.by_chain; ++a) one[a] = values[i * FLOATS + b] == a ? 1.f : 0.f;
    }
}

// Draws a value with probabilities as exp(z), by inverting their sums at a uniform number.
inline Ints drawn(Floats* z, int64_t count, RandomWords& random, Floats& finite) {
  Floats highest = all(-INFINITY), sum{};
  for (int64_t a = 0; a < count; ++a) highest = z[a] > highest ? z[a] : highest;
  for (int64_t a = 0; a < count; ++a) z[a] = sum += exponential(z[a] - highest);
  finite += sum;
  Floats level = uniform(random) * (sum * (1 / UNIT));  // above 0, and at most the sum
  Ints value{};
  for (int64_t a = 0; a + 1 < count; ++a) value -= z[a] < level;
  return value;
}

void move(Rows rows, int64_t count, Betas betas, const Chains& chains, RandomWords random, int32_t* values) {
  read(chains, rows.sites, values);
  Floats finite{}, factors{};
  std::copy_n(chains.factors, chains.count, reinterpret_cast<float*>(&factors));
  Ints flips{};
  for (float beta : betas)
    for (int64_t k = 0; k < rows.sites; ++k) {
      Floats z[MOST];
      for (int32_t a = 0; a < count; ++a) {
        Floats local = all(rows.fields[k * count + a]);
        for (int64_t e = rows.offsets[k], end = rows.end(k); e < end; ++e)
          local += load(values + rows.others[e] * FLOATS) == a ? all(rows.weights[e]) : all(0.f);
        z[a] = beta * factors * local;
      }
      int32_t* own = values + rows.order[k] * FLOATS;
      Ints before = load(own), after = drawn(z, count, random, finite);
      store(own, after);
      flips -= before != after;
    }
  write(chains, rows.sites, values);
  for (int64_t b = 0; b < chains.count; ++b) {
    chains.finite[b] = finite[b];
    if (chains.flips) chains.flips[b] = flips[b];
  }
}

}  // namespace

// Moves chains of one-hot vectors (sites, chains, values) in place, by a sweep at each inverse temperature,
// times a factor of each chain.
extern "C" void sweep(int64_t sites, int64_t entries, const int64_t* order, const int64_t* offsets,
                      const int64_t* others, const float* weights, const float* fields, const float* betas,
                      int64_t sweeps, int64_t values, float* table, int64_t by_site, int64_t count, const float* factors,
                      float* finite, int32_t* flips, uint64_t seed, int threads) {
  Rows rows{sites, entries, order, offsets, others, weights, fields};
  auto moved = [&](const Chains& own, const RandomWords& random, int32_t* block) {
    move(rows, values, Betas{betas, sweeps}, own, random, block);
  };
  Chains chains{table, by_site, values, count, factors, finite, flips};
  by_blocks<int32_t>(chains, FLOATS, sites * FLOATS, seed, threads, moved);
}
