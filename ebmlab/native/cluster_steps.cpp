// Cluster sampling of Ising and Potts models (Swendsen and Wang, Phys. Rev. Lett. 58, 1987; Wolff, Phys. Rev. Lett. 62,
// 1989). A cluster grows from a site, and looks at each edge once: at the first of its ends that joins a cluster.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "random_words.hpp"

namespace {

// The neighbours of each site: `others` and `couplings` from offsets[i] up to offsets[i + 1]. Spins are values 0 and 1,
// and a negative coupling bonds different ones. Fields (sites, values) may be a null pointer: then there are none.
struct Model {
  int64_t sites, values;
  const int64_t *offsets, *others;
  const float* couplings;
  const float* fields;
  bool spins;
};

class Numbers {
 public:
  Numbers(uint64_t seed, uint64_t stream) : random(seed, stream) {}

  uint32_t word() {
    if (left == 0) {
      store(words, random.next());
      left = 2 * WORDS;
    }
    --left;
    return static_cast<uint32_t>(words[left / 2] >> 32 * (left % 2));
  }

  int64_t below(int64_t n) { return static_cast<int64_t>(uint64_t{word()} * n >> 32); }

  double uniform() { return (word() + 0.5) * 0x1p-32; }

 private:
  RandomWords random;
  uint64_t words[WORDS];
  int64_t left = 0;
};

class Chain {
 public:
  Chain(const Model& model, const std::vector<uint64_t>& odds, int32_t* values, Numbers numbers)
      : m(model), odds(odds), x(values), numbers(numbers), seen(model.sites), pull(model.values) {
    cluster.reserve(model.sites);
  }

  int64_t changes = 0;
  double acceptance = 0;

  // All clusters take new values.
  void swendsen_wang() {
    ++now;
    for (int64_t i = 0; i < m.sites; ++i) {
      if (seen[i] == now) continue;
      grow(i);
      turn(x[i], m.fields ? drawn(x[i]) : static_cast<int32_t>(numbers.below(m.values)));
    }
    acceptance += 1;
  }

  // That of a random site takes another value, if the field lets it.
  void wolff() {
    ++now;
    const int64_t site = numbers.below(m.sites);
    grow(site);
    const int32_t from = x[site], others = static_cast<int32_t>(std::max<int64_t>(m.values - 1, 1));
    const int32_t to = static_cast<int32_t>((from + 1 + numbers.below(others)) % m.values);
    double accepted = 1;
    if (m.fields) {
      sum_fields(from);
      accepted = std::exp(std::min(pull[to] - pull[from], 0.0));
    }
    acceptance += accepted;
    if (accepted >= 1 || numbers.uniform() < accepted) turn(from, to);
  }

 private:
  const Model& m;
  const std::vector<uint64_t>& odds;  // 2^32 times those of a bond, of each entry
  int32_t* x;
  Numbers numbers;
  std::vector<int64_t> seen, cluster;  // in which step a site has joined a cluster
  int64_t now = 0;
  std::vector<double> pull;

  void grow(int64_t first) {
    cluster.assign(1, first);
    seen[first] = now;
    for (size_t n = 0; n < cluster.size(); ++n) {
      const int64_t i = cluster[n];
      for (int64_t e = m.offsets[i]; e < m.offsets[i + 1]; ++e) {
        const int64_t j = m.others[e];
        if (seen[j] == now) continue;  // of this cluster, or of one that the edge has been found not to bond
        const bool satisfied = (x[i] == x[j]) == (m.couplings[e] > 0);
        if (!satisfied || numbers.word() >= odds[e]) continue;
        seen[j] = now;
        cluster.push_back(j);
      }
    }
  }

  // What the cluster's fields add up to for each value of its first site. Spins keep their pattern, or turn over.
  void sum_fields(int32_t first) {
    std::fill(pull.begin(), pull.end(), 0.0);
    for (int64_t i : cluster)
      for (int64_t a = 0; a < m.values; ++a) pull[a] += m.fields[i * m.values + (m.spins ? a ^ first ^ x[i] : a)];
  }

  int32_t drawn(int32_t first) {
    sum_fields(first);
    const double largest = *std::max_element(pull.begin(), pull.end());
    double sum = 0;
    for (double& part : pull) part = sum += std::exp(part - largest);
    const double level = numbers.uniform() * sum;
    int32_t value = 0;
    while (value + 1 < m.values && pull[value] <= level) ++value;
    return value;
  }

  void turn(int32_t from, int32_t to) {
    if (from == to) return;
    changes += static_cast<int64_t>(cluster.size());
    for (int64_t i : cluster) x[i] = m.spins ? x[i] ^ 1 : to;
  }
};

}  // namespace

// Moves the values (chains, sites) of chains by some steps, in place. Adds the probability of each change to
// `acceptance` (chains), and to `changes` (chains) how many sites have changed.
extern "C" void step(int64_t sites, int64_t values, const int64_t* offsets, const int64_t* others,
                     const float* couplings, const float* fields, int spins, int32_t* x, int64_t chains, int64_t steps,
                     int wolff, uint64_t seed, float* acceptance, int64_t* changes, int threads) {
  Model model{sites, values, offsets, others, couplings, fields, spins != 0};
  std::vector<uint64_t> odds(offsets[sites]);
  for (size_t e = 0; e < odds.size(); ++e)
    odds[e] = static_cast<uint64_t>(-std::expm1((spins ? -2.0 : -1.0) * std::abs(couplings[e])) * 0x1p32);
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1)
  for (int64_t b = 0; b < chains; ++b) {
    Chain chain(model, odds, x + b * sites, Numbers(seed, b));
    for (int64_t s = 0; s < steps; ++s)
      if (wolff)
        chain.wolff();
      else
        chain.swendsen_wang();
    acceptance[b] += static_cast<float>(chain.acceptance);
    changes[b] += chain.changes;
  }
}
