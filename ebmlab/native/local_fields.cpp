// Local fields J x + h of an Ising model, and its energies. A vector holds the same spin of as many chains, so that the
// local fields of all of them are sums of its neighbours' vectors, each times one number.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sweeps.hpp"

namespace {

constexpr int64_t PART = 64;    // sites whose energies are summed before they join the rest: less is rounded away
constexpr int64_t CHAINS = 16;  // at once: a line of memory where the numbers of a site lie side by side

// Numbers of chains in memory: those of a chain, or those of a site, lie side by side.
struct Table {
  float* first;
  int64_t by_chain, by_site;
};

void read(Table from, int64_t count, int64_t sites, float* spins, int64_t width) {
  if (from.by_chain == 1)
    for (int64_t i = 0; i < sites; ++i) std::copy_n(from.first + i * from.by_site, count, spins + i * width);
  else
    transpose(from.first, from.by_chain, count, sites, spins, width);
}

void write(const float* fields, int64_t width, int64_t count, int64_t sites, Table to) {
  if (to.by_chain == 1)
    for (int64_t i = 0; i < sites; ++i) std::copy_n(fields + i * width, count, to.first + i * to.by_site);
  else
    transpose(fields, width, sites, count, to.first, to.by_chain);
}

// Of the chains of V vectors: their local fields (sites, V FLOATS), if they are wanted, and -1/2 sum_i x_i (J x + 2 h)_i.
template <int64_t V, bool KEEPS>
void evaluate(const Rows& rows, const float* spins, float* fields, float* sums) {
  constexpr int64_t WIDTH = V * FLOATS;
  Floats total[V] = {};
  for (int64_t first = 0; first < rows.sites; first += PART) {
    Floats part[V] = {};
    for (int64_t k = first, last = std::min(first + PART, rows.sites); k < last; ++k) {
      Floats local[V];
      for (int64_t v = 0; v < V; ++v) local[v] = all(rows.fields[k]);
      for (int64_t e = rows.offsets[k], end = rows.end(k); e < end; ++e) {
        const float* other = spins + rows.others[e] * WIDTH;
        for (int64_t v = 0; v < V; ++v) local[v] += rows.weights[e] * load(other + v * FLOATS);
      }
      for (int64_t v = 0; v < V; ++v) {
        part[v] += load(spins + k * WIDTH + v * FLOATS) * (local[v] + rows.fields[k]);
        if (KEEPS) store(fields + k * WIDTH + v * FLOATS, local[v]);
      }
    }
    for (int64_t v = 0; v < V; ++v) total[v] += part[v];
  }
  for (int64_t v = 0; v < V; ++v) store(sums + v * FLOATS, -0.5f * total[v]);
}

}  // namespace

// Energies (chains) of states x, and their local fields in the layout of x, if they are wanted. Row k of J and h is that
// of site k. Of each layout, one of the steps is 1.
extern "C" void local_fields(int64_t sites, int64_t entries, const int64_t* offsets, const int64_t* others,
                             const float* weights, const float* fields, const float* x, int64_t by_chain,
                             int64_t by_site, int64_t count, float* out, int64_t out_by_chain, int64_t out_by_site,
                             float* sums, int threads) {
  const Rows rows{sites, entries, nullptr, offsets, others, weights, fields};
  const int64_t width = count > FLOATS ? CHAINS : FLOATS, blocks = (count + width - 1) / width;
  auto narrow = out ? evaluate<1, true> : evaluate<1, false>;
  auto wide = out ? evaluate<CHAINS / FLOATS, true> : evaluate<CHAINS / FLOATS, false>;
  threads = static_cast<int>(std::min<int64_t>(threads, blocks));
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
    std::vector<float> spins(sites * width), found(out ? sites * width : 0);
#pragma omp for schedule(static)
    for (int64_t b = 0; b < count; b += width) {
      int64_t here = std::min(width, count - b);
      float energies[CHAINS];
      read({const_cast<float*>(x) + b * by_chain, by_chain, by_site}, here, sites, spins.data(), width);
      (width == FLOATS ? narrow : wide)(rows, spins.data(), found.data(), energies);
      std::copy_n(energies, here, sums + b);
      if (out) write(found.data(), width, here, sites, {out + b * out_by_chain, out_by_chain, out_by_site});
    }
  }
}
