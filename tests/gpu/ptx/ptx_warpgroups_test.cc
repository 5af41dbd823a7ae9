// Products of warpgroups in the interpreter of PTX, on kernels written by hand: where the
// elements are, and what is computed.

#include "tests/gpu/ptx/ptx_warpgroups.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "tests/gpu/ptx/ptx_numbers.h"
#include "tests/gpu/ptx/written_kernel.h"

namespace stowage::testing::ptx {
namespace {

// The 16-bit elements of a matrix by (i, k): i counts in M or N.
struct Elements {
  int rows, depth;
  std::vector<uint16_t> bits;
  Elements(int rows_in, int depth_in)
      : rows(rows_in),
        depth(depth_in),
        bits(static_cast<size_t>(rows_in * depth_in)) {}
  uint16_t& at(int i, int k) {
    return bits[static_cast<size_t>(i * depth + k)];
  }
  uint16_t at(int i, int k) const {
    return bits[static_cast<size_t>(i * depth + k)];
  }
};

// Where a matrix lies. The figures of "Shared Memory Matrix Layout" draw it in cells of
// 16 bytes: an atom is 8 cells in K (M- or N-major), or 8 in M or N (K-major), by `cells`
// in the other direction; with row r of 8, what is drawn in column c is at c ^ turn(r).
struct Layout {
  int swizzle;  // as in descriptors
  bool is_k_major;
  int cells;  // in a row of an atom
  // Bytes from an atom to the next in the direction of M or N, and of K.
  int next_i, next_k;
  int start = 0, base = 0;
};

int ByteOf(const Layout& l, int i, int k) {
  const int cell_i = l.is_k_major ? i : i / 8;
  const int cell_k = l.is_k_major ? k / 8 : k;
  const int across = l.is_k_major ? cell_k : cell_i;  // along rows of an atom
  const int down = l.is_k_major ? cell_i : cell_k;
  const int row = down % 8, column = across % l.cells;
  // 128 bytes: each row turns; 64: each second; 32: each fourth.
  const int turn = row * l.cells / 8;
  const int in_atom = 16 * (row * l.cells + (column ^ turn));
  const int element = l.is_k_major ? k % 8 : i % 8;
  const int atoms_across = across / l.cells, atoms_down = down / 8;
  return l.start + in_atom + 2 * element +
         atoms_across * (l.is_k_major ? l.next_k : l.next_i) +
         atoms_down * (l.is_k_major ? l.next_i : l.next_k);
}

// Which of the strides a descriptor calls which: "Leading" and "Stride Dimension Byte
// Offset" of the ISA.
Descriptor Of(const Layout& l) {
  const bool leads_in_k = l.swizzle == 0 || l.is_k_major;
  Descriptor d;
  d.start = static_cast<uint64_t>(l.start);
  d.leading = static_cast<uint64_t>(leads_in_k ? l.next_k : l.next_i);
  d.stride = static_cast<uint64_t>(leads_in_k ? l.next_i : l.next_k);
  d.base = static_cast<uint64_t>(l.base);
  d.swizzle = static_cast<uint64_t>(l.swizzle);
  return d;
}

// All eight, with a gap behind each atom.
std::vector<Layout> Layouts() {
  std::vector<Layout> all;
  for (const bool is_k_major : {true, false}) {
    for (const auto& [swizzle, cells] :
         {std::pair(0, 1), std::pair(1, 8), std::pair(2, 4), std::pair(3, 2)}) {
      const int atom = 128 * cells;
      const int next = 2 * atom;
      // Behind the atoms of 256 rows or columns.
      const int next_k = 32 / cells * next + (swizzle == 0 ? 16 : atom);
      all.push_back({swizzle, is_k_major, cells, next,
                     is_k_major && swizzle != 0 ? 0 : next_k});
    }
  }
  return all;
}

void Place(const Layout& l, const Elements& m, std::vector<uint64_t>* shared) {
  for (int i = 0; i < m.rows; ++i) {
    for (int k = 0; k < m.depth; ++k) {
      const auto at = static_cast<size_t>(ByteOf(l, i, k));
      REQUIRE(at + 2 <= 8 * shared->size());
      const uint16_t bits = m.at(i, k);
      std::memcpy(reinterpret_cast<std::byte*>(shared->data()) + at, &bits, 2);
    }
  }
}

// Row and column of accumulator i of a thread: figure of the accumulator of
// "Matrix Fragments for wgmma.mma_async.m64nNk16".
std::pair<int, int> PlaceInD(int thread, int i) {
  const int warp = thread >> 5, lane = thread & 31;
  const int row = 16 * warp + (lane >> 2) + ((i & 2) != 0 ? 8 : 0);
  return {row, 8 * (i >> 2) + 2 * (lane & 3) + (i & 1)};
}
// Of element i of eight of a thread's fragment of A.
std::pair<int, int> PlaceInA(int thread, int i) {
  const int warp = thread >> 5, lane = thread & 31;
  const int row = 16 * warp + (lane >> 2) + ((i & 2) != 0 ? 8 : 0);
  return {row, 2 * (lane & 3) + (i & 1) + ((i & 4) != 0 ? 8 : 0)};
}

struct Case {
  std::string type = "bf16";
  int columns = 64;
  Layout a{}, b{};
  bool a_in_registers = false;
  bool adds = false;
  int sign_a = 1, sign_b = 1;
  uint64_t seed = 0;
};

// D by (row, column), of a warpgroup that multiplies once for each 16 of K. Accumulators
// begin with `first`, 0 or 100, which the first product may add to.
std::vector<float> Compute(const Case& c, const Elements& a, const Elements& b,
                           float first = 0) {
  std::vector<uint64_t> in(8192);  // 64 KiB
  const size_t shared_bytes = 8 * in.size();
  if (!c.a_in_registers) Place(c.a, a, &in);
  Place(c.b, b, &in);
  // Behind it, the fragments of A: 16 bytes a thread and 16 of K.
  const int steps = a.depth / 16;
  for (int step = 0; step < steps && c.a_in_registers; ++step) {
    for (int thread = 0; thread < 128; ++thread) {
      uint16_t eight[8];
      for (int i = 0; i < 8; ++i) {
        const auto [row, k] = PlaceInA(thread, i);
        eight[i] = a.at(row, 16 * step + k);
      }
      uint64_t words[2];
      std::memcpy(words, eight, sizeof(words));
      in.insert(in.end(), words, words + 2);
    }
  }
  std::string body = FillShared(shared_bytes) + kProxyFence + kBarrier;
  body += Accumulators(c.columns) + "\t.reg .b32 \t%a<64>;\n";
  body += SetAccumulators(c.columns, first == 0 ? "0f00000000" : "0f42C80000");
  for (int step = 0; step < steps && c.a_in_registers; ++step) {
    body += StrCat(
        "\tmul.wide.u32 \t%rd17, %r0, 16;\n"
        "\tadd.s64 \t%rd17, %rd17, %rd1;\n"
        "\tld.global.v4.u32 \t{%a",
        4 * step, ", %a", 4 * step + 1, ", %a", 4 * step + 2, ", %a",
        4 * step + 3, "}, [%rd17+",
        shared_bytes + static_cast<size_t>(step) * 2048, "];\n");
  }
  body += StrCat("\tsetp.", c.adds ? "ne" : "eq", ".u32 \t%p1, %r0, 999;\n");
  body += kFence;
  for (int step = 0; step < steps; ++step) {
    // By K, a matrix goes on in the row of its atom, or with the next atom.
    const auto shifted = [&](Layout l) {
      l.start = ByteOf(l, 0, 16 * step);
      // Without the turn: rows begin where their pattern does.
      return Of(l);
    };
    if (!c.a_in_registers) body += Describe(0, shifted(c.a));
    body += Describe(1, shifted(c.b));
    std::string a_operand = "%rd10";
    if (c.a_in_registers) {
      a_operand = StrCat("{%a", 4 * step, ", %a", 4 * step + 1, ", %a",
                         4 * step + 2, ", %a", 4 * step + 3, "}");
    }
    body += Multiply(
        c.columns,
        StrCat(a_operand, ", %rd11, ", step == 0 ? "%p1" : "1", ", ", c.sign_a,
               ", ", c.sign_b,
               c.a_in_registers ? "" : (c.a.is_k_major ? ", 0" : ", 1"),
               c.b.is_k_major ? ", 0" : ", 1"),
        c.type);
  }
  body += kEnd + StoreAccumulators(c.columns);
  const size_t words = static_cast<size_t>(128 * c.columns / 4);
  const Outcome outcome =
      RunOn(body, in, words,
            {.threads = 128,
             .dynamic_shared = static_cast<uint32_t>(shared_bytes),
             .seed = c.seed});
  REQUIRE(outcome.wrong == "");
  std::vector<float> d(static_cast<size_t>(64 * c.columns));
  for (int thread = 0; thread < 128; ++thread) {
    for (int i = 0; i < c.columns / 2; ++i) {
      float x;
      std::memcpy(&x,
                  reinterpret_cast<const std::byte*>(outcome.out.data()) +
                      (thread * c.columns / 2 + i) * 4,
                  4);
      const auto [row, column] = PlaceInD(thread, i);
      d[static_cast<size_t>(row * c.columns + column)] = x;
    }
  }
  return d;
}

uint16_t Bits(const std::string& type, int x) {
  const auto value = static_cast<float>(x);
  return type == "bf16" ? ToBF16(value) : ToF16(value);
}
float Value(const std::string& type, uint16_t bits) {
  return type == "bf16" ? FromBF16(bits) : FromF16(bits);
}

// Each element another finite number.
Elements Distinct(int rows, int depth) {
  Elements m(rows, depth);
  for (size_t i = 0; i < m.bits.size(); ++i) {
    m.bits[i] = static_cast<uint16_t>(0x0400 + 5 * i);
  }
  return m;
}
// 1 where (i, k) has i % 16 == k.
Elements Unit(const std::string& type, int rows) {
  Elements m(rows, 16);
  for (int i = 0; i < rows; ++i) m.at(i, i % 16) = Bits(type, 1);
  return m;
}
Elements Small(const std::string& type, int rows, int depth, int salt) {
  Elements m(rows, depth);
  for (int i = 0; i < rows; ++i) {
    for (int k = 0; k < depth; ++k) {
      m.at(i, k) = Bits(type, (i * 7 + k * 5 + i * k % 3 + salt) % 15 - 7);
    }
  }
  return m;
}

// By three loops. Exact, where all are small integers.
void CheckProduct(const Case& c, const Elements& a, const Elements& b,
                  float first = 0) {
  const std::vector<float> d = Compute(c, a, b, first);
  for (int i = 0; i < 64; ++i) {
    for (int j = 0; j < c.columns; ++j) {
      float want = c.adds ? first : 0;
      for (int k = 0; k < a.depth; ++k) {
        want += static_cast<float>(c.sign_a * c.sign_b) *
                Value(c.type, a.at(i, k)) * Value(c.type, b.at(j, k));
      }
      CAPTURE(i);
      CAPTURE(j);
      REQUIRE(d[static_cast<size_t>(i * c.columns + j)] == want);
    }
  }
}

// Where A and B lie in these tests.
Layout At(Layout l, int start) {
  l.start = start;
  return l;
}
constexpr int kOfB = 32768;

TEST_CASE("each element of B is where its layout says") {
  for (const Layout& l : Layouts()) {
    for (const int columns : {8, 64, 96, 256}) {
      CAPTURE(l.swizzle);
      CAPTURE(l.is_k_major);
      CAPTURE(columns);
      Case c;
      c.type = columns == 96 ? "f16" : "bf16";
      c.columns = columns;
      c.a_in_registers = true;
      c.b = At(l, 0);
      const Elements b = Distinct(columns, 16);
      const std::vector<float> d = Compute(c, Unit(c.type, 64), b);
      for (int i = 0; i < 64; ++i) {
        for (int j = 0; j < columns; ++j) {
          REQUIRE(d[static_cast<size_t>(i * columns + j)] ==
                  Value(c.type, b.at(j, i % 16)));
        }
      }
    }
  }
}

TEST_CASE("each element of A is where its layout, or its fragment, says") {
  std::vector<Layout> layouts = Layouts();
  layouts.push_back(layouts[0]);
  for (size_t l = 0; l < layouts.size(); ++l) {
    CAPTURE(layouts[l].swizzle);
    CAPTURE(layouts[l].is_k_major);
    Case c;
    c.type = l % 2 == 0 ? "bf16" : "f16";
    c.columns = 16;
    c.a = At(layouts[l], kOfB);
    c.a_in_registers = l + 1 == layouts.size();
    c.b = At(layouts[0], 0);
    const Elements a = Distinct(64, 16);
    const std::vector<float> d = Compute(c, a, Unit(c.type, 16));
    for (int i = 0; i < 64; ++i) {
      for (int j = 0; j < 16; ++j) {
        REQUIRE(d[static_cast<size_t>(i * 16 + j)] ==
                Value(c.type, a.at(i, j)));
      }
    }
  }
}

TEST_CASE("a pattern that starts off its boundary has a base offset") {
  for (const Layout& l : Layouts()) {
    if (l.swizzle == 0) continue;
    for (const int base : {1, 3, 7}) {
      Case c;
      c.columns = 64;
      c.a_in_registers = true;
      c.b = At(l, 128 * base);
      c.b.base = base;
      CheckProduct(c, Small("bf16", 64, 16, 1), Small("bf16", 64, 16, 2));
    }
  }
}

TEST_CASE("products add up over K, with signs, or begin anew") {
  const std::vector<Layout> layouts = Layouts();
  for (const size_t l : {size_t{1}, size_t{5}}) {  // 128 bytes, either way
    for (const bool a_in_registers : {false, true}) {
      for (const bool adds : {false, true}) {
        for (const int signs : {0, 1, 2, 3}) {
          Case c;
          c.type = adds ? "bf16" : "f16";
          c.columns = 96;
          c.a = At(layouts[l], kOfB);
          c.b = At(layouts[l], 0);
          if (!c.b.is_k_major) c.b.next_k = c.a.next_k = 4096;
          c.a_in_registers = a_in_registers;
          c.adds = adds;
          c.sign_a = (signs & 1) != 0 ? -1 : 1;
          c.sign_b = (signs & 2) != 0 ? -1 : 1;
          c.seed = static_cast<uint64_t>(signs);
          CheckProduct(c, Small(c.type, 64, 64, 3), Small(c.type, 96, 64, 4),
                       100);
        }
      }
    }
  }
}

}  // namespace
}  // namespace stowage::testing::ptx
