#include "tests/gpu/ptx/ptx_warpgroups.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "tests/gpu/ptx/ptx_block.h"
#include "tests/gpu/ptx/ptx_memory.h"
#include "tests/gpu/ptx/ptx_module.h"
#include "tests/gpu/ptx/ptx_numbers.h"

namespace stowage::testing::ptx {
namespace {

constexpr int kRows = 64, kDepth = 16, kMaxColumns = 256;  // M, K, N
constexpr int kRowsOfWarp = kRows / kWarpgroupWarps;

using Warps = std::array<Warp*, kWarpgroupWarps>;

// --- Operands -------------------------------------------------------------------

// D, A, B, scale-d, imm-scale-a, imm-scale-b, and of each descriptor whether it is
// transposed: A is one, or four registers.
struct Operands {
  const Slot* d = nullptr;
  int columns = 0;  // N; half as many registers
  const Slot* a = nullptr;
  bool a_is_shared = false;
  uint64_t a_descriptor = 0, b_descriptor = 0;
  bool adds = false;  // to D
  double sign = 1;    // of the products
  bool a_is_transposed = false, b_is_transposed = false;
};

// An operand that all lanes of the four warps must agree in.
uint64_t ReadUniform(const Warps& warps, const Slot& slot, const char* what) {
  const auto read = [&](Warp& warp, int lane) -> uint64_t {
    if (slot.bytes == kPredicate) return warp.ReadPredicate(slot) >> lane & 1;
    if (slot.bytes == 8) return warp.Read<uint64_t>(slot)[lane];
    return warp.Read<uint32_t>(slot)[lane];
  };
  const uint64_t value = read(*warps[0], 0);
  for (Warp* const warp : warps) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const uint64_t other = read(*warp, lane);
      if (other == value) continue;
      warp->Report(StrCat(what, " is ", other, " in warp ", warp->number,
                          " lane ", lane, " and ", value, " in warp ",
                          warps[0]->number, " lane 0"));
      return value;
    }
  }
  return value;
}

Operands ReadOperands(const Warps& warps, const Instruction& in) {
  Operands o;
  o.d = in.slots;
  const size_t accumulators = in.operation->widths.size() - 1;
  o.columns = static_cast<int>(2 * accumulators);
  o.a = in.slots + accumulators;
  o.a_is_shared = o.a->bytes == 8;
  const Slot* next = o.a + (o.a_is_shared ? 1 : 4);
  if (in.slots + in.count != next + (o.a_is_shared ? 6 : 5)) {
    warps[0]->Report(StrCat("a product with ", in.count, " operands"));
    return o;
  }
  const auto immediate = [&](const char* what, int64_t one, int64_t other) {
    const Slot& slot = *next++;
    const auto value = static_cast<int64_t>(ReadUniform(warps, slot, what));
    if (slot.number != kConstant || (value != one && value != other)) {
      warps[0]->Report(
          StrCat(what, " is ", value, "; expected ", one, " or ", other));
    }
    return value;
  };
  if (o.a_is_shared) o.a_descriptor = ReadUniform(warps, *o.a, "descriptor A");
  o.b_descriptor = ReadUniform(warps, *next++, "descriptor B");
  o.adds = ReadUniform(warps, *next++, "scale-d") != 0;
  o.sign = static_cast<double>(immediate("imm-scale-a", 1, -1) *
                               immediate("imm-scale-b", 1, -1));
  if (o.a_is_shared) o.a_is_transposed = immediate("imm-trans-a", 0, 1) != 0;
  o.b_is_transposed = immediate("imm-trans-b", 0, 1) != 0;
  return o;
}

// --- Matrices in shared memory --------------------------------------------------

// Elements of 16 bits, in rows of 16 bytes or of the swizzle's width. K-major, a row has
// elements that follow each other in K, else in M or N.
struct Matrix {
  const char* name;
  uint64_t start, leading, stride, base;
  uint64_t width;  // of a swizzled row in bytes; 16: nothing is swizzled
  bool is_k_major;
};

Matrix ReadDescriptor(const char* name, uint64_t bits, bool is_transposed) {
  constexpr uint64_t kWidths[] = {16, 128, 64, 32};
  const auto field = [&](int from) { return (bits >> from & 0x3FFF) << 4; };
  return {.name = name,
          .start = field(0),
          .leading = field(16),
          .stride = field(32),
          .base = bits >> 49 & 7,
          .width = kWidths[bits >> 62],
          .is_k_major = !is_transposed};
}

// By "Canonical Layouts" of the ISA; i counts in M or N.
uint64_t AddressOf(const Matrix& m, int row, int depth) {
  const auto i = static_cast<uint64_t>(row), k = static_cast<uint64_t>(depth);
  if (m.width == 16) {
    // Blocks of 8 by 8, each 128 bytes.
    return m.is_k_major ? m.start + i % 8 * 16 + i / 8 * m.stride + k % 8 * 2 +
                              k / 8 * m.leading
                        : m.start + i % 8 * 2 + i / 8 * m.stride + k % 8 * 16 +
                              k / 8 * m.leading;
  }
  const uint64_t in_row = m.width / 2;
  const uint64_t address =
      m.is_k_major ? m.start + i % 8 * m.width + i / 8 * m.stride + k * 2
                   : m.start + i % in_row * 2 + i / in_row * m.leading +
                         k % 8 * m.width + k / 8 * m.stride;
  // The pattern repeats after 8 rows, and starts where the base offset says.
  const uint64_t turn = ((address >> 7) - m.base) & (m.width / 16 - 1);
  return address ^ turn << 4;
}

// What is wrong with where the matrix of so many rows or columns starts, or nothing.
std::string CheckDescriptor(const Matrix& m, uint64_t bits, int rows) {
  constexpr uint64_t kMeaningless = 0x3FF1'C000'C000'C000;
  if ((bits & kMeaningless) != 0) {
    return StrCat("descriptor ", m.name, " is ", bits,
                  ", with bits set that mean nothing");
  }
  if (m.width == 16) {
    if (m.base == 0) return {};
    return StrCat("descriptor ", m.name, " has base offset ", m.base,
                  " and no swizzle");
  }
  const uint64_t pattern = 8 * m.width;
  const uint64_t into = (m.start - m.base * 128) % pattern;
  const uint64_t used =
      m.is_k_major ? kDepth * 2
                   : std::min(static_cast<uint64_t>(rows) * 2, m.width);
  if (into + used <= m.width) return {};
  return StrCat("matrix ", m.name, " starts at ", m.start, ", ", into,
                " bytes into a pattern of ", pattern, " by base offset ",
                m.base, "; expected its first ", used,
                " bytes in the first row, of ", m.width);
}

template <typename T>
using Rows = std::array<std::array<T, kDepth>, kMaxColumns>;

// Element (i, k) of a matrix in `to[i][k]`, as bits. False: something is wrong.
bool ReadMatrix(Warp& first, const Matrix& m, uint64_t bits, int rows,
                uint32_t reads, Rows<uint16_t>* to) {
  const std::string wrong = CheckDescriptor(m, bits, rows);
  if (!wrong.empty()) {
    first.Report(wrong);
    return false;
  }
  Memory& memory = *first.block->memory;
  const int step_i = m.is_k_major ? 1 : 8, step_k = m.is_k_major ? 8 : 1;
  for (int i = 0; i < rows; i += step_i) {
    for (int k = 0; k < kDepth; k += step_k) {
      const std::byte* const from =
          memory.ReadForProduct(AddressOf(m, i, k), first.number, reads);
      if (from == nullptr) {
        first.Report(StrCat("element (", i, ", ", k, ") of ", m.name, ": ",
                            memory.error()));
        return false;
      }
      uint16_t eight[8];
      std::memcpy(eight, from, sizeof(eight));
      for (int j = 0; j < 8; ++j) {
        (*to)[static_cast<size_t>(m.is_k_major ? i : i + j)]
             [static_cast<size_t>(m.is_k_major ? k + j : k)] = eight[j];
      }
    }
  }
  return true;
}

// --- Registers --------------------------------------------------------------------

// What keeps a product from using the registers of a warp, or nothing.
std::string CheckRegisters(Warp& warp, const Operands& o) {
  const Products& products = *warp.products;
  if (!products.is_fenced) return "a product without a wgmma.fence before it";
  for (int i = 0; i < o.columns / 2; ++i) {
    const Slot& slot = o.d[i];
    if (slot.number >= products.registers.size()) return "D is no registers";
    const Products::Register& r = products.registers[slot.number];
    if (r.is_changed) {
      return StrCat("register ", i,
                    " of D was written since the last wgmma.fence");
    }
    if (r.is_read != 0) {
      return StrCat("register ", i,
                    " of D is one of A of a product that was not waited for");
    }
    if (r.shape != 0 && r.shape != o.columns) {
      return StrCat("register ", i,
                    " of D is one of a product with N = ", r.shape,
                    ", and of this with N = ", o.columns,
                    ", without a wgmma.fence in between");
    }
    if (o.adds && r.accumulates == 0) warp.Read<float>(slot);
  }
  for (int i = 0; i < (o.a_is_shared ? 0 : 4); ++i) {
    const Slot& slot = o.a[i];
    if (slot.number >= products.registers.size() || slot.bytes != 4) {
      return "A is no registers of 32 bits";
    }
    const Products::Register& r = products.registers[slot.number];
    if (r.is_changed || r.shape != 0) {
      return StrCat("register ", i,
                    " of A was written since the last wgmma.fence");
    }
    if (r.is_read == 0) warp.Read<uint32_t>(slot);
  }
  return {};
}

// From now to the wait the registers are the product's.
void TakeRegisters(Warp& warp, const Operands& o, uint32_t reads) {
  Products& products = *warp.products;
  Products::Product product{.group = products.group,
                            .reads = reads,
                            .accumulators = {},
                            .factors = {}};
  for (int i = 0; i < o.columns / 2; ++i) {
    const uint32_t number = o.d[i].number;
    product.accumulators.push_back(number);
    ++products.registers[number].accumulates;
    products.registers[number].shape = static_cast<uint16_t>(o.columns);
    warp.written[number] = 0;
  }
  for (int i = 0; i < (o.a_is_shared ? 0 : 4); ++i) {
    const uint32_t number = o.a[i].number;
    product.factors.push_back(number);
    ++products.registers[number].is_read;
    warp.written[number] = 0;
  }
  products.under_way.push_back(std::move(product));
}

template <typename T>
T* RegisterAt(const Warp& warp, const Slot& slot) {
  return reinterpret_cast<T*>(warp.registers + slot.offset);
}

// Fragments, in warp w of the four and with g = lane / 4 and t = lane % 4:
//   d0, d1, ... : row 16 w + g, or 8 more where i / 2 is odd; column
//     8 (i / 4) + 2 t + i % 2;
//   a0..a7, two a register: row 16 w + g, or 8 more of a2, a3, a6, a7; column
//     2 t + i % 2, or 8 more of a4 to a7.

void ReadFragmentsOfA(const Warps& warps, const Slot* a, Rows<uint16_t>* to) {
  for (int w = 0; w < kWarpgroupWarps; ++w) {
    for (int i = 0; i < 8; ++i) {
      const auto* two =
          RegisterAt<uint32_t>(*warps[static_cast<size_t>(w)], a[i / 2]);
      for (int lane = 0; lane < kLanes; ++lane) {
        const int row = w * kRowsOfWarp + lane / 4 + (i / 2 % 2 == 0 ? 0 : 8);
        const int k = lane % 4 * 2 + i % 2 + (i < 4 ? 0 : 8);
        (*to)[static_cast<size_t>(row)][static_cast<size_t>(k)] =
            static_cast<uint16_t>(two[lane] >> (16 * (i % 2)));
      }
    }
  }
}

// D = sign A B, or that and D. Sums are in double precision, in the order of K, rounded
// once, as of mma.sync: the ISA leaves order and precision open.
void MultiplyAdd(const Warps& warps, const Operands& o, const Rows<double>& a,
                 const Rows<double>& b) {
  const auto n = static_cast<size_t>(o.columns);
  std::array<double, kMaxColumns> sums;  // of a row
  std::array<std::array<double, kMaxColumns>, kDepth> b_by_depth;
  for (size_t k = 0; k < kDepth; ++k) {
    for (size_t j = 0; j < n; ++j) b_by_depth[k][j] = b[j][k];
  }
  for (size_t row = 0; row < kRows; ++row) {
    const Warp& warp = *warps[row / kRowsOfWarp];
    const size_t in_warp = row % kRowsOfWarp;
    const auto element = [&](size_t j) -> float& {
      const size_t i = j / 8 * 4 + in_warp / 8 * 2 + j % 2;
      const size_t lane = in_warp % 8 * 4 + j % 8 / 2;
      return RegisterAt<float>(warp, o.d[i])[lane];
    };
    for (size_t j = 0; j < n; ++j) {
      sums[j] = o.adds ? static_cast<double>(element(j)) : 0.0;
    }
    for (size_t k = 0; k < kDepth; ++k) {
      const double factor = o.sign * a[row][k];
      for (size_t j = 0; j < n; ++j) sums[j] += factor * b_by_depth[k][j];
    }
    for (size_t j = 0; j < n; ++j) element(j) = static_cast<float>(sums[j]);
  }
}

// --- The other instructions, each of a warp -----------------------------------------

void FenceRegisters(Warp& warp, const Instruction&) {
  Products& products = *warp.products;
  products.is_fenced = true;
  for (Products::Register& r : products.registers) {
    r.is_changed = false;
    r.shape = 0;
  }
}

void CommitProducts(Warp& warp, const Instruction&) { ++warp.products->group; }

// wgmma.wait_group n: until at most the n youngest groups are under way.
void WaitForProducts(Warp& warp, const Instruction& in) {
  const uint32_t n = *warp.Read<uint32_t>(in.slots[0]);
  Products& products = *warp.products;
  const auto release = [&](uint32_t number, uint16_t Products::Register::*use) {
    Products::Register& r = products.registers[number];
    --(r.*use);
    if (!r.is_under_way()) warp.written[number] = kAllLanes;
  };
  std::erase_if(products.under_way, [&](const Products::Product& product) {
    if (product.group + n >= products.group) return false;
    for (const uint32_t number : product.accumulators) {
      release(number, &Products::Register::accumulates);
    }
    for (const uint32_t number : product.factors) {
      release(number, &Products::Register::is_read);
    }
    warp.block->memory->order().EndReads(product.reads, warp.number);
    return true;
  });
}

// It moves registers between warps of a block, and changes no values.
void SetMostRegisters(Warp& warp, const Instruction& in) {
  const uint32_t n = *warp.Read<uint32_t>(in.slots[0]);
  if (n < 24 || n > 256 || n % 8 != 0) {
    warp.Report(StrCat("a number of registers of ", n,
                       "; expected a multiple of 8 from 24 to 256"));
  }
}

template <uint8_t of>
void FenceProxies(Warp& warp, const Instruction&) {
  warp.block->memory->order().FenceProxy(warp.number, warp.mask, of);
}

}  // namespace

void Warp::NoteChange(const Slot& slot) {
  Products::Register& r = products->registers[slot.number];
  if (r.is_under_way()) {
    Report("a register of a product that was not waited for is written");
  }
  r.is_changed = true;
}

void RunProduct(const Warps& warps, const Instruction& in) {
  Warp& first = *warps[0];
  Block& block = *first.block;
  const Operands o = ReadOperands(warps, in);
  if (!block.wrong.empty()) return;
  for (Warp* const warp : warps) {
    const std::string wrong = CheckRegisters(*warp, o);
    if (!wrong.empty()) {
      warp->Report(StrCat("warp ", warp->number, ": ", wrong));
    }
    if (!block.wrong.empty()) return;
  }
  const uint32_t reads = block.memory->order().BeginReads(first.number);
  const auto bits = std::make_unique<std::array<Rows<uint16_t>, 2>>();
  auto& [a_bits, b_bits] = *bits;
  if (!o.a_is_shared) {
    ReadFragmentsOfA(warps, o.a, &a_bits);
  } else if (!ReadMatrix(first,
                         ReadDescriptor("A", o.a_descriptor, o.a_is_transposed),
                         o.a_descriptor, kRows, reads, &a_bits)) {
    return;
  }
  if (!ReadMatrix(first, ReadDescriptor("B", o.b_descriptor, o.b_is_transposed),
                  o.b_descriptor, o.columns, reads, &b_bits)) {
    return;
  }
  const bool is_brain = in.operation->name.ends_with("bf16");
  const auto values = std::make_unique<std::array<Rows<double>, 2>>();
  const auto convert = [&](const Rows<uint16_t>& from, int rows,
                           Rows<double>* to) {
    for (size_t i = 0; i < static_cast<size_t>(rows); ++i) {
      for (size_t k = 0; k < kDepth; ++k) {
        (*to)[i][k] = static_cast<double>(is_brain ? FromBF16(from[i][k])
                                                   : FromF16(from[i][k]));
      }
    }
  };
  auto& [a, b] = *values;
  convert(a_bits, kRows, &a);
  convert(b_bits, o.columns, &b);
  MultiplyAdd(warps, o, a, b);
  for (Warp* const warp : warps) TakeRegisters(*warp, o, reads);
}

std::vector<Operation> WarpgroupOperations() {
  constexpr uint8_t kShared = kFencesShared | kFencesInit;
  std::vector<Operation> table = {
      {"wgmma.fence.sync.aligned", FenceRegisters, Flow::kWhole, {}},
      {"wgmma.commit_group.sync.aligned", CommitProducts, Flow::kWhole, {}},
      {"wgmma.wait_group.sync.aligned", WaitForProducts, Flow::kWhole, {4}},
      {"setmaxnreg.inc.sync.aligned.u32", SetMostRegisters, Flow::kWhole, {4}},
      {"setmaxnreg.dec.sync.aligned.u32", SetMostRegisters, Flow::kWhole, {4}},
      {"fence.proxy.async",
       FenceProxies<kShared | kFencesGlobal>,
       Flow::kNext,
       {}},
      {"fence.proxy.async.global",
       FenceProxies<kFencesGlobal>,
       Flow::kNext,
       {}},
      {"fence.proxy.async.shared::cta", FenceProxies<kShared>, Flow::kNext, {}},
      {"fence.proxy.async.shared::cluster",
       FenceProxies<kShared>,
       Flow::kNext,
       {}},
  };
  for (int columns = 8; columns <= kMaxColumns; columns += 8) {
    std::vector<uint8_t> widths(static_cast<size_t>(columns / 2), 4);
    widths.push_back(kAnySize);
    for (const char* const type : {"bf16", "f16"}) {
      // The machine executes it, by RunProduct.
      table.push_back({StrCat("wgmma.mma_async.sync.aligned.m64n", columns,
                              "k16.f32.", type, ".", type),
                       nullptr, Flow::kWarpgroup, widths});
    }
  }
  return table;
}

}  // namespace stowage::testing::ptx
