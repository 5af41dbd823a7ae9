// What the lanes of a warp do together: shuffles, votes, matrices. PTX ISA 9.0,
// sections 9.7.9.6, 9.7.13 and 9.7.15. All of them want a full mask.

#include <bit>
#include <cstdint>
#include <cstring>

#include "tests/gpu/ptx/ptx_block.h"
#include "tests/gpu/ptx/ptx_module.h"
#include "tests/gpu/ptx/ptx_numbers.h"
#include "tests/gpu/ptx/ptx_warp.h"

namespace stowage::testing::ptx {
namespace {

bool WantsAllLanes(Warp& warp, const Slot& members) {
  const auto* mask = warp.Read<uint32_t>(members);
  for (int i = 0; i < kLanes; ++i) {
    if (mask[i] != kAllLanes) {
      warp.Report("a mask of members that is not full");
      return false;
    }
  }
  return true;
}

// shfl.sync.bfly.b32 d|p, a, b, c, members: the low 5 bits of c are the largest lane,
// those from 8 on say which bits of a lane's number are its segment's.
template <bool butterfly>
void Shuffle(Warp& warp, const Instruction& in) {
  const bool has_predicate = in.count == 6;
  const Slot* const operands = in.slots + (has_predicate ? 2 : 1);
  const auto* a = warp.Read<uint32_t>(operands[0]);
  const auto* b = warp.Read<uint32_t>(operands[1]);
  const auto* c = warp.Read<uint32_t>(operands[2]);
  if (!WantsAllLanes(warp, operands[3])) return;
  alignas(64) uint32_t d[kLanes];
  uint32_t in_range = 0;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const uint32_t segment = c[lane] >> 8 & 31, clamp = c[lane] & 31;
    const uint32_t first = lane & segment, last = first | (clamp & ~segment);
    const uint32_t from =
        butterfly ? lane ^ (b[lane] & 31) : first | (b[lane] & 31 & ~segment);
    in_range |= static_cast<uint32_t>(from <= last) << lane;
    d[lane] = a[from <= last ? from : lane];
  }
  warp.Write(in.slots[0], d);
  if (has_predicate) warp.WritePredicate(in.slots[1], in_range);
}

void Ballot(Warp& warp, const Instruction& in) {
  const uint32_t votes = warp.ReadPredicate(in.slots[1]);
  if (!WantsAllLanes(warp, in.slots[2])) return;
  alignas(64) uint32_t d[kLanes];
  for (uint32_t& lane : d) lane = votes;
  warp.Write(in.slots[0], d);
}

void SyncWarp(Warp& warp, const Instruction& in) {
  if (WantsAllLanes(warp, in.slots[0])) {
    warp.block->memory->order().SyncWarp(warp.number);
  }
}

// elect.sync d|p, members: one lane, of which the ISA says no more than that it is the same
// each time. It is the last, so that nothing comes to depend on the first.
void Elect(Warp& warp, const Instruction& in) {
  if (!WantsAllLanes(warp, in.slots[2])) return;
  alignas(64) uint32_t d[kLanes];
  for (uint32_t& lane : d) lane = kLanes - 1;
  warp.Write(in.slots[0], d);
  warp.WritePredicate(in.slots[1], uint32_t{1} << (kLanes - 1));
}

// ldmatrix.x4: lanes 8 i to 8 i + 7 have the addresses of the 8 rows of matrix i.
// A lane receives, of each matrix, elements 2 (lane % 4) and the next of row
// lane / 4; transposed, of column lane / 4.
template <bool transposed>
void LoadMatrices(Warp& warp, const Instruction& in) {
  const Slot& address = in.slots[4];
  const auto* base = warp.Read<uint32_t>(address);
  uint16_t rows[kLanes][8];
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint64_t row = base[lane] + static_cast<uint64_t>(address.plus);
    const std::byte* const from = warp.block->memory->Touch(
        Space::kShared, Access::kRead, row, 16, warp.number, lane);
    if (from == nullptr) return warp.Report(warp.block->memory->error());
    std::memcpy(rows[lane], from, 16);
  }
  for (int matrix = 0; matrix < 4; ++matrix) {
    alignas(64) uint32_t d[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      const int i = lane / 4, j = 2 * (lane % 4);
      const auto* const m = rows + 8 * matrix;
      const uint32_t first = transposed ? m[j][i] : m[i][j];
      const uint32_t second = transposed ? m[j + 1][i] : m[i][j + 1];
      d[lane] = first | second << 16;
    }
    warp.Write(in.slots[matrix], d);
  }
}

// mma.m16n8k16 of 16-bit types, with g = lane / 4 and t = lane % 4:
//   a0..a7 in four registers: row g, or g + 8 of a2, a3, a6, a7; column 2 t + i % 2, and 8
//   more of a4 to a7;
//   b0..b3 in two: row 2 t + i % 2, and 8 more of b2, b3; column g;
//   c0..c3: row g, or g + 8 of c2, c3; column 2 t + i % 2.
// Sums are in double precision, rounded once.
template <float (*to_float)(uint16_t)>
void MultiplyAdd(Warp& warp, const Instruction& in) {
  double a[16][16], b[16][8], d[16][8];
  const auto half = [](uint32_t two, int i) {
    return static_cast<double>(
        to_float(static_cast<uint16_t>(two >> (16 * (i % 2)))));
  };
  for (int i = 0; i < 8; ++i) {
    const auto* r = warp.Read<uint32_t>(in.slots[4 + i / 2]);
    for (int lane = 0; lane < kLanes; ++lane) {
      const int row = lane / 4 + (i / 2 % 2 == 0 ? 0 : 8);
      const int column = lane % 4 * 2 + i % 2 + (i < 4 ? 0 : 8);
      a[row][column] = half(r[lane], i);
    }
  }
  for (int i = 0; i < 4; ++i) {
    const auto* r = warp.Read<uint32_t>(in.slots[8 + i / 2]);
    for (int lane = 0; lane < kLanes; ++lane) {
      b[lane % 4 * 2 + i % 2 + (i < 2 ? 0 : 8)][lane / 4] = half(r[lane], i);
    }
    const auto* c = warp.Read<float>(in.slots[10 + i]);
    for (int lane = 0; lane < kLanes; ++lane) {
      d[lane / 4 + (i < 2 ? 0 : 8)][lane % 4 * 2 + i % 2] =
          static_cast<double>(c[lane]);
    }
  }
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < 16; ++k) {
      for (int j = 0; j < 8; ++j) d[row][j] += a[row][k] * b[k][j];
    }
  }
  for (int i = 0; i < 4; ++i) {
    alignas(64) float result[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      result[lane] = static_cast<float>(
          d[lane / 4 + (i < 2 ? 0 : 8)][lane % 4 * 2 + i % 2]);
    }
    warp.Write(in.slots[i], result);
  }
}

}  // namespace

std::vector<Operation> WarpOperations() {
  const std::vector<uint8_t> product(14, 4);
  return {
      {"shfl.sync.bfly.b32",
       Shuffle<true>,
       Flow::kWhole,
       {4, kPredicate, 4, 4, 4, 4}},
      {"shfl.sync.idx.b32",
       Shuffle<false>,
       Flow::kWhole,
       {4, kPredicate, 4, 4, 4, 4}},
      {"vote.sync.ballot.b32", Ballot, Flow::kWhole, {4, kPredicate, 4}},
      {"elect.sync", Elect, Flow::kWhole, {4, kPredicate, 4}},
      {"bar.warp.sync", SyncWarp, Flow::kWhole, {4}},
      {"ldmatrix.sync.aligned.m8n8.x4.shared.b16",
       LoadMatrices<false>,
       Flow::kWhole,
       {4, 4, 4, 4, kAddress}},
      {"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16",
       LoadMatrices<true>,
       Flow::kWhole,
       {4, 4, 4, 4, kAddress}},
      {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
       MultiplyAdd<FromBF16>, Flow::kWhole, product},
      {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
       MultiplyAdd<FromF16>, Flow::kWhole, product},
      // Control, which the machine does itself.
      {"bra", nullptr, Flow::kBranch, {}},
      {"bra.uni", nullptr, Flow::kBranch, {}},
      {"ret", nullptr, Flow::kReturn, {}},
      {"exit", nullptr, Flow::kReturn, {}},
      {"bar.sync", nullptr, Flow::kBarrier, {4}},
      {"bar.arrive", nullptr, Flow::kArrive, {4, 4}},
  };
}

}  // namespace stowage::testing::ptx
