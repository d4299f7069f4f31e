// Sweeps of Ising models by colours, 64 chains in the bits of a word (multi-spin coding, Jacobs and Rebbi, J. Comput.
// Phys. 41, 1981). A site counts the pulls upwards of its neighbours by adders, bit by bit. A uniform number is compared
// with the probability that the count has, from the first binary digit on, until it is decided in all chains.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "random_words.hpp"

namespace {

constexpr int LEVELS = 32;            // binary digits of a probability
constexpr int64_t CLASSES = 32;       // sizes of a local field, at most
constexpr int64_t WIDE = 8;           // words of a site that lie side by side, from which a vector has one site
constexpr int64_t CHUNK = 64;         // vectors of a colour that share a stream of random words
constexpr int PLANES = 32;            // binary digits of numbers of flips

// Sites of one colour: rows begin, begin + 1, ... of the table. Pull i of a site is 2^bits[i] times the bit of row
// index[i] (pulls, size), where masks[i] (pulls, size) reverses it; all pulls upwards add up to `total`.
struct Group {
  int64_t begin, size, total, pulls;
  const int64_t *index, *masks, *bits;
};

// Digits of a colour's thresholds: -1 where one is 1.
typedef uint64_t Digits[LEVELS][CLASSES];

// The table (rows, width). A narrow one is a column here: each word is a site of its own.
struct Table {
  uint64_t* words;
  int64_t width;
};

inline bool any(Words x) {
#if defined(__AVX512F__)
  return _mm512_test_epi64_mask(reinterpret_cast<__m512i>(x), reinterpret_cast<__m512i>(x)) != 0;
#elif defined(__AVX2__)
  return !_mm256_testz_si256(reinterpret_cast<__m256i>(x), reinterpret_cast<__m256i>(x));
#else
  uint64_t found = 0;
  for (int64_t lane = 0; lane < WORDS; ++lane) found |= x[lane];
  return found != 0;
#endif
}

// The words of a column with these numbers.
inline Words gathered(const uint64_t* words, const int64_t* index) {
#if defined(__AVX512F__)
  return reinterpret_cast<Words>(_mm512_i64gather_epi64(_mm512_loadu_si512(index), words, 8));
#elif defined(__AVX2__)
  const __m256i at = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(index));
  return reinterpret_cast<Words>(_mm256_i64gather_epi64(reinterpret_cast<const long long*>(words), at, 8));
#else
  Words out{};
  for (int64_t lane = 0; lane < WORDS; ++lane) out[lane] = words[index[lane]];
  return out;
#endif
}

// Adds up planes of bits: numbers of flips, bit by bit. Of two planes that count 2^b, one is held until the other comes.
struct Counter {
  Words digits[PLANES], held[PLANES];
  uint64_t planes;

  void add(Words plane) {
    int b = 0;
    for (; planes >> b & 1; ++b) {
      Words half = held[b] ^ plane, carry = (held[b] & plane) | (half & digits[b]);
      digits[b] ^= half;
      plane = carry;
    }
    held[b] = plane;
    ++planes;
  }

  // Adds the numbers of a vector's lanes to those of `width` words of chains, over and over.
  void add_to(int64_t* flips, int64_t width) const {
    for (int b = 0; planes >> b; ++b)
      for (int64_t lane = 0; lane < WORDS; ++lane) {
        uint64_t digit = digits[b][lane], more = planes >> b & 1 ? held[b][lane] : 0;
        int64_t* own = flips + 64 * (lane % width);
        for (int i = 0; i < 64; ++i) own[i] += static_cast<int64_t>((digit >> i & 1) + (more >> i & 1)) << b;
      }
  }
};

struct Chunk {
  RandomWords random;
  Counter counter;
};

constexpr int binary_digits(int64_t number) { return number ? 1 + binary_digits(number / 2) : 0; }

// Redraws some sites of a colour. TOTAL is that of its pulls, or 0 for any.
template <int64_t TOTAL>
void redraw(Table table, const Group& group, const Digits& thresholds, bool metropolis, int64_t column, int64_t first,
            int64_t last, Chunk& chunk, bool count) {
  constexpr int D = TOTAL ? binary_digits(TOTAL) : binary_digits(2 * CLASSES - 1);
  const int64_t total = TOTAL ? TOTAL : group.total, classes = total / 2 + 1, width = table.width;
  const int64_t at_once = width == 1 ? WORDS : 1;
  RandomWords random = chunk.random;
  for (int64_t row = first; row < last; row += at_once) {
    Words digits[D] = {};
    for (int64_t i = 0; i < group.pulls; ++i) {
      const int64_t *index = group.index + i * group.size + row, *masks = group.masks + i * group.size + row;
      Words pull;
      if (width == 1)
        pull = gathered(table.words, index) ^ load(reinterpret_cast<const uint64_t*>(masks));
      else
        pull = load(table.words + *index * width + column) ^ static_cast<uint64_t>(*masks);
      auto add = [&](int b) {
        Words carry = digits[b] & pull;
        digits[b] ^= pull;
        pull = carry;
      };
      if (group.bits[i])
        for (int b = static_cast<int>(group.bits[i]); b < D; ++b) add(b);
      else
        for (int b = 0; b < D; ++b) add(b);
    }
    auto equal = [&](int64_t number) {
      Words out = number & 1 ? digits[0] : ~digits[0];
      for (int b = 1; b < D; ++b) out &= number >> b & 1 ? digits[b] : ~digits[b];
      return out;
    };
    Words alike[TOTAL ? TOTAL / 2 + 1 : CLASSES], upwards{};  // chains whose field has a size, and those with h > 0
    for (int64_t c = 0; c < classes; ++c) {
      int64_t up = (total + 1) / 2 + c;
      alike[c] = equal(up);
      if (2 * up == total) continue;
      upwards |= alike[c];
      alike[c] |= equal(total - up);
    }
    Words below{}, open = ~Words{};
    for (int level = 0; level < LEVELS && any(open); ++level) {
      Words wanted{}, number = random.next();
      for (int64_t c = 0; c < classes; ++c) wanted |= alike[c] & thresholds[level][c];
      below |= open & wanted & ~number;
      open &= ~(number ^ wanted);
    }
    uint64_t* place = table.words + (group.begin + row) * width + column;
    const int64_t lanes = width == 1 ? std::min(WORDS, last - row) : WORDS;
    Words before{}, after;
    if (lanes == WORDS)
      before = load(place);
    else
      memcpy(&before, place, 8 * lanes);
    if (metropolis) {  // along the field by chance, against it always; where there is none, `below` says which flip
      Words along = total % 2 ? upwards : upwards | (alike[0] & before);
      after = along ^ (below & ~(before ^ along));
    } else {
      after = upwards ^ below;
    }
    if (lanes == WORDS)
      store(place, after);
    else
      memcpy(place, &after, 8 * lanes);
    if (!count) continue;
    Words flipped = after ^ before;
    for (int64_t lane = lanes; lane < WORDS; ++lane) flipped[lane] = 0;  // beyond the last site
    chunk.counter.add(flipped);
  }
  chunk.random = random;
}

using Redraw = void (*)(Table, const Group&, const Digits&, bool, int64_t, int64_t, int64_t, Chunk&, bool);
constexpr Redraw REDRAW[] = {redraw<0>, redraw<1>, redraw<2>, redraw<3>, redraw<4>, redraw<5>, redraw<6>, redraw<7>};

// A colour of a narrow table, of which each word becomes a site; lanes beyond the last one read row 0.
struct Column {
  std::vector<int64_t> index, masks;
  Group group;

  Column(const Group& of, int64_t width) {
    int64_t size = of.size * width, padded = (size + WORDS - 1) / WORDS * WORDS;
    index.assign(of.pulls * padded, 0);
    masks.assign(of.pulls * padded, 0);
    for (int64_t i = 0; i < of.pulls; ++i)
      for (int64_t r = 0; r < of.size; ++r)
        for (int64_t w = 0; w < width; ++w) {
          index[i * padded + r * width + w] = of.index[i * of.size + r] * width + w;
          masks[i * padded + r * width + w] = of.masks[i * of.size + r];
        }
    group = {of.begin * width, padded, of.total, of.pulls, index.data(), masks.data(), of.bits};
  }
};

}  // namespace

// Sweeps the table in place. Thresholds (sweeps, groups, CLASSES) are 2^32 times a probability for each size of the
// field, 0, 2, 4... or 1, 3, 5...: that of a spin against its field, or with `metropolis` that of a flip of one along it.
// Adds the flips of each chain to `flips` (64 width) unless it is a null pointer. The width is 1, 2, 4 or a multiple of 8.
extern "C" void sweep(uint64_t* words, int64_t width, const Group* given, int64_t num_groups,
                      const uint32_t* thresholds, int64_t sweeps, int metropolis, uint64_t seed, int64_t* flips,
                      int threads) {
  const bool narrow = width < WIDE;
  const int64_t rows = narrow ? CHUNK * WORDS : CHUNK, blocks = narrow ? 1 : width / WORDS;  // rows of a chunk
  Table table{words, narrow ? 1 : width};
  std::vector<Column> columns;
  std::vector<Group> groups(given, given + num_groups);
  std::vector<int64_t> sizes;
  int64_t most = 1;
  columns.reserve(num_groups);
  for (Group& group : groups) {
    sizes.push_back(narrow ? group.size * width : group.size);
    if (narrow) group = columns.emplace_back(group, width).group;
    most = std::max(most, (sizes.back() + rows - 1) / rows);
  }
  std::vector<Chunk> chunks;
  chunks.reserve(most * blocks);
  for (int64_t stream = 0; stream < most * blocks; ++stream) chunks.push_back({RandomWords(seed, stream), Counter{}});
  threads = static_cast<int>(std::min<int64_t>(threads, most * blocks));
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
    std::vector<uint64_t> planes(num_groups * LEVELS * CLASSES);
    Digits* digits = reinterpret_cast<Digits*>(planes.data());
    for (int64_t s = 0; s < sweeps; ++s)
      for (int64_t g = 0; g < num_groups; ++g) {
        const uint32_t* own = thresholds + (s * num_groups + g) * CLASSES;
        if (!s || memcmp(own, own - num_groups * CLASSES, sizeof(uint32_t) * CLASSES))
          for (int level = 0; level < LEVELS; ++level)
            for (int64_t c = 0; c < CLASSES; ++c)
              digits[g][level][c] = -(uint64_t{own[c]} >> (LEVELS - 1 - level) & 1);
        const Group& group = groups[g];
        Redraw redraw = REDRAW[group.total < 8 ? group.total : 0];
        int64_t parts = (sizes[g] + rows - 1) / rows;
#pragma omp for schedule(static)
        for (int64_t n = 0; n < blocks * parts; ++n) {
          int64_t block = n / parts, first = n % parts * rows;
          redraw(table, group, digits[g], metropolis, block * WORDS, first, std::min(first + rows, sizes[g]),
                 chunks[block * most + n % parts], flips != nullptr);
        }
      }
  }
  if (flips)
    for (int64_t n = 0; n < blocks * most; ++n)
      chunks[n].counter.add_to(flips + (narrow ? 0 : 64 * WORDS * (n / most)), std::min(width, WORDS));
}

// Packs spins x (chains, sites) into words (rows, width): bit b of word w in row place[i] is 1 if x[64 w + b, i] > 0.
extern "C" void pack(const float* x, int64_t chains, int64_t sites, const int64_t* place, uint64_t* words,
                     int64_t width, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
  for (int64_t w = 0; w < (chains + 63) / 64; ++w) {
    std::vector<uint64_t> own(sites);
    for (int64_t b = 0; b < std::min<int64_t>(64, chains - 64 * w); ++b) {
      const float* row = x + (64 * w + b) * sites;
      for (int64_t i = 0; i < sites; ++i) own[i] |= static_cast<uint64_t>(row[i] > 0.f) << b;
    }
    for (int64_t i = 0; i < sites; ++i) words[place[i] * width + w] = own[i];
  }
}

// The inverse: writes spins -1 and +1.
extern "C" void unpack(const uint64_t* words, int64_t width, const int64_t* place, float* x, int64_t chains,
                       int64_t sites, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
  for (int64_t w = 0; w < (chains + 63) / 64; ++w) {
    std::vector<uint64_t> own(sites);
    for (int64_t i = 0; i < sites; ++i) own[i] = words[place[i] * width + w];
    for (int64_t b = 0; b < std::min<int64_t>(64, chains - 64 * w); ++b) {
      float* row = x + (64 * w + b) * sites;
      for (int64_t i = 0; i < sites; ++i) row[i] = own[i] >> b & 1 ? 1.f : -1.f;
    }
  }
}
