// 3x3 convolutions of stride 1, the image padded by zeros, by Winograd's minimal filtering F(4x4, 3x3) (Lavin and Gray
// 2016, arXiv:1509.09308, eq. 8 and section 4.3). A tile of 6x6 pixels d and a filter g give 4x4 outputs
//   Y = A' [ (G g G') * (B' d B) ] A,
// where * multiplies number by number: 36 multiplications, and not 144, for each pair of channels. Summed over the input
// channels, these are 36 products of matrices. A block of tiles goes through all three steps before the next one does,
// so that what lies in between stays in the processor's cache. A tile is computed alike wherever it stands.

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "logistic.hpp"

namespace {

constexpr int64_t OUT = 4, IN = 6, POINTS = IN * IN;  // sides of a tile's outputs and inputs
#ifndef ROWS
#define ROWS 8
#endif
#ifndef PAD
#define PAD FLOATS
#endif

// B' d, for six vectors that lie `step` vectors apart.
inline void input_transform(const Floats d[IN], Floats out[IN]) {
  Floats even = d[4] - 4.f * d[2], odd = d[3] - 4.f * d[1];
  Floats two = d[4] - d[2], one = 2.f * (d[3] - d[1]);
  out[0] = 4.f * d[0] - 5.f * d[2] + d[4];
  out[1] = even + odd;
  out[2] = even - odd;
  out[3] = two + one;
  out[4] = two - one;
  out[5] = 4.f * d[1] - 5.f * d[3] + d[5];
}

// A' m.
inline void output_transform(const Floats m[IN], Floats y[OUT]) {
  Floats p = m[1] + m[2], q = m[1] - m[2], r = m[3] + m[4], s = m[3] - m[4];
  y[0] = m[0] + p + r;
  y[1] = q + 2.f * s;
  y[2] = p + 4.f * r;
  y[3] = q + 8.f * s + m[5];
}

// G g.
inline void filter_transform(const Floats g[3], Floats out[IN]) {
  Floats even = g[0] + g[2], far = g[0] + 4.f * g[2];
  out[0] = 0.25f * g[0];
  out[1] = -(even + g[1]) * (1.f / 6.f);
  out[2] = -(even - g[1]) * (1.f / 6.f);
  out[3] = (far + 2.f * g[1]) * (1.f / 24.f);
  out[4] = (far - 2.f * g[1]) * (1.f / 24.f);
  out[5] = g[2];
}

struct Buffer {
  float* p;
  explicit Buffer(int64_t n) : p(static_cast<float*>(aligned_alloc(64, 4 * n))) {}
  ~Buffer() { free(p); }
};

struct Filters {
  const float* first;
  int64_t by_output, by_input, by_row, by_column;  // steps in memory
};

struct Images {
  int64_t count, height, width, channels;
  int64_t tiles_down() const { return (height + OUT - 1) / OUT; }
  int64_t tiles_across() const { return (width + OUT - 1) / OUT; }
  int64_t tiles() const { return count * tiles_down() * tiles_across(); }
};

struct Place {
  int64_t image, row, column;
  Place(const Images& s, int64_t tile)
      : image(tile / (s.tiles_down() * s.tiles_across())),
        row(tile / s.tiles_across() % s.tiles_down() * OUT),
        column(tile % s.tiles_across() * OUT) {}
};

// G g G' of the filters from input channel i to all output channels: out (36, inputs, outputs).
void transform_filters(const Filters& f, int64_t channels, int64_t i, float* out) {
  for (int64_t o = 0; o < channels; o += FLOATS) {
    const float* filter = f.first + i * f.by_input + o * f.by_output;
    Floats half[IN][3], g[3], u[IN];
    for (int64_t c = 0; c < 3; ++c) {
      for (int64_t r = 0; r < 3; ++r)
        for (int64_t lane = 0; lane < FLOATS; ++lane)
          g[r][lane] = filter[lane * f.by_output + r * f.by_row + c * f.by_column];
      filter_transform(g, u);
      for (int64_t r = 0; r < IN; ++r) half[r][c] = u[r];
    }
    for (int64_t r = 0; r < IN; ++r) {
      filter_transform(half[r], u);
      for (int64_t c = 0; c < IN; ++c) store(out + ((r * IN + c) * channels + i) * channels + o, u[c]);
    }
  }
}

void transform_inputs(const float* x, const Images& s, int64_t first, int64_t tiles, float* out) {
  static const float zeros[FLOATS] = {};
  for (int64_t t = 0; t < tiles; ++t) {
    Place at(s, first + t);
    const float* image = x + at.image * s.height * s.width * s.channels;
    for (int64_t c = 0; c < s.channels; c += FLOATS) {
      Floats half[IN][IN];
      for (int64_t j = 0; j < IN; ++j) {
        int64_t column = at.column + j - 1;
        bool within = column >= 0 && column < s.width;
        Floats d[IN], h[IN];
        for (int64_t i = 0; i < IN; ++i) {
          int64_t row = at.row + i - 1;
          bool inside = within && row >= 0 && row < s.height;
          d[i] = load(inside ? image + (row * s.width + column) * s.channels + c : zeros);
        }
        input_transform(d, h);
        for (int64_t i = 0; i < IN; ++i) half[i][j] = h[i];
      }
      for (int64_t i = 0; i < IN; ++i) {
        Floats v[IN];
        input_transform(half[i], v);
        for (int64_t j = 0; j < IN; ++j) store(out + (i * IN + j) * (tiles * s.channels + PAD) + t * s.channels + c, v[j]);
      }
    }
  }
}

template <int64_t N, int64_t Q>
inline void multiply(const float* v, const float* u, int64_t channels, float* out) {
  Floats sum[N][Q] = {};
  for (int64_t k = 0; k < channels; ++k)
    for (int64_t q = 0; q < Q; ++q) {
      Floats w = load(u + k * channels + q * FLOATS);
      for (int64_t n = 0; n < N; ++n) sum[n][q] += v[n * channels + k] * w;
    }
  for (int64_t n = 0; n < N; ++n)
    for (int64_t q = 0; q < Q; ++q) store(out + n * channels + q * FLOATS, sum[n][q]);
}

template <int64_t N, int64_t Q>
inline void multiply_rows(const float* v, const float* u, int64_t rows, int64_t channels, float* out) {
  for (; rows >= N; rows -= N, v += N * channels, out += N * channels) multiply<N, Q>(v, u, channels, out);
  if constexpr (N > 1) multiply_rows<N / 2, Q>(v, u, rows, channels, out);
}

template <int64_t Q>
void multiply_all(const float* v, const float* u, int64_t tiles, int64_t channels, float* out) {
  for (int64_t p = 0; p < POINTS; ++p)
    for (int64_t o = 0; o < channels; o += Q * FLOATS) {
      int64_t at = p * (tiles * channels + PAD);
      multiply_rows<ROWS, Q>(v + at, u + p * channels * channels + o, tiles, channels, out + at + o);
    }
}

struct After {
  const float *bias, *shortcut, *scale;  // null pointers: none
  float *out, *slope;
};

void transform_outputs(const float* m, const Images& s, int64_t first, int64_t tiles, const After& after) {
  for (int64_t t = 0; t < tiles; ++t) {
    Place at(s, first + t);
    int64_t rows = std::min(OUT, s.height - at.row), columns = std::min(OUT, s.width - at.column);
    for (int64_t c = 0; c < s.channels; c += FLOATS) {
      Floats half[OUT][IN];
      for (int64_t j = 0; j < IN; ++j) {
        Floats d[IN], h[OUT];
        for (int64_t i = 0; i < IN; ++i) d[i] = load(m + (i * IN + j) * (tiles * s.channels + PAD) + t * s.channels + c);
        output_transform(d, h);
        for (int64_t i = 0; i < OUT; ++i) half[i][j] = h[i];
      }
      Floats bias = after.bias ? load(after.bias + c) : Floats{};
      for (int64_t i = 0; i < rows; ++i) {
        Floats y[OUT];
        output_transform(half[i], y);
        for (int64_t j = 0; j < columns; ++j) {
          int64_t place = ((at.image * s.height + at.row + i) * s.width + at.column + j) * s.channels + c;
          Floats z = y[j] + bias;
          if (after.shortcut) z += load(after.shortcut + place);
          if (after.scale) z *= load(after.scale + place);
          if (after.slope) {
            Floats share = sigmoid(z), value = z * share;
            store(after.slope + place, share + value * (1.f - share));
            z = value;
          }
          store(after.out + place, z);
        }
      }
    }
  }
}

}  // namespace

extern "C" void convolve(const float* x, int64_t count, int64_t height, int64_t width, int64_t channels,
                         const float* weight, int64_t by_output, int64_t by_input, int64_t by_row, int64_t by_column,
                         const float* bias, const float* shortcut, const float* scale, float* out, float* slope,
                         float* filters, int64_t block, int threads) {
  Images s{count, height, width, channels};
  Filters f{weight, by_output, by_input, by_row, by_column};
  After after{bias, shortcut, scale, out, slope};
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
    Buffer inputs(POINTS * (block * channels + PAD)), products(POINTS * (block * channels + PAD));
#pragma omp for schedule(static)
    for (int64_t i = 0; i < channels; ++i) transform_filters(f, channels, i, filters);
#pragma omp for schedule(static)
    for (int64_t t = 0; t < s.tiles(); t += block) {
      int64_t tiles = std::min(block, s.tiles() - t);
      transform_inputs(x, s, t, tiles, inputs.p);
      if (channels % (2 * FLOATS) == 0)
        multiply_all<2>(inputs.p, filters, tiles, channels, products.p);
      else
        multiply_all<1>(inputs.p, filters, tiles, channels, products.p);
      transform_outputs(products.p, s, t, tiles, after);
    }
  }
}
