#include "tests/gpu/ptx/ptx_bulk_copies.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "gpu/emulator/warpgroup.h"
#include "gpu/tensor_map.h"
#include "tests/gpu/ptx/ptx_block.h"
#include "tests/gpu/ptx/ptx_mbarriers.h"
#include "tests/gpu/ptx/ptx_memory.h"
#include "tests/gpu/ptx/ptx_module.h"
#include "tests/gpu/ptx/ptx_order.h"
#include "tests/gpu/ptx/ptx_warp.h"

namespace stowage::testing::ptx {
namespace {

constexpr uint32_t kChunk = 16;  // bytes: the least that is copied
constexpr uint64_t kTensorAlignment = 128;
constexpr uint64_t kMapAlignment = 64;

// --- Issuing ----------------------------------------------------------------------

// The tensor map at an address of the space of all. None: something is wrong, which is
// reported.
std::optional<gpu::TensorMapSpec> ReadMap(Warp& warp, uint64_t address,
                                          int lane, int rank) {
  Block& block = *warp.block;
  gpu::TensorMap map;
  const bool is_param = address >> 32 == kParamWindow >> 32;
  const uint64_t at = is_param ? address - kParamWindow : address;
  const auto report = [&](const std::string& what) {
    warp.Report(
        StrCat("a tensor map at ", at, is_param ? " of the params" : "", what));
    return std::nullopt;
  };
  if (at % kMapAlignment != 0) return report(" is not aligned to 64 bytes");
  if (is_param) {
    if (block.param_alignment % kMapAlignment != 0) {
      return report(StrCat(", which are aligned to ", block.param_alignment,
                           " bytes; expected 64"));
    }
    if (at > block.params.size() || block.params.size() - at < sizeof(map)) {
      return report(StrCat(", of ", block.params.size(), " bytes"));
    }
    std::memcpy(&map, block.params.data() + at, sizeof(map));
  } else {
    for (size_t i = 0; i < map.words.size(); i += 2) {
      const std::byte* const from = block.memory->Touch(
          Space::kGlobal, Access::kRead, at + 8 * i, 16, warp.number, lane);
      if (from == nullptr) return report(": " + block.memory->error());
      std::memcpy(&map.words[i], from, 16);
    }
  }
  const auto spec = gpu::emulator::DecodeTensorMap(map);
  if (!spec) return report(" is none that the driver has encoded");
  if (spec->rank != rank) {
    return report(StrCat(" has ", spec->rank, " dimensions; expected ", rank));
  }
  const int row = spec->box[0] * spec->element_bytes;
  if (spec->swizzle != 0 && row != spec->swizzle) {
    return report(StrCat(" has rows of ", row, " bytes, and a swizzle of ",
                         spec->swizzle, "; expected the same"));
  }
  return spec;
}

// The copy is under way from here on. False: something is wrong, which is reported.
bool Issue(Warp& warp, BulkCopy copy) {
  Block& block = *warp.block;
  Order& order = block.memory->order();
  const auto lane = static_cast<uint32_t>(copy.lane);
  Mbarrier* const barrier = FindMbarrier(warp, copy.mbarrier, copy.lane);
  if (barrier == nullptr) return false;
  if (!order.IsFenced(barrier->made, warp.number, lane, kFencesInit)) {
    warp.Report(StrCat("the mbarrier at ", copy.mbarrier,
                       " was initialised by ", order.NameOf(barrier->made),
                       " and is signalled by a copy without a "
                       "fence.mbarrier_init or fence.proxy.async of that lane "
                       "in between"));
    return false;
  }
  if (barrier->copies == 0) barrier->copies = order.BeginCopies(barrier->agent);
  if (!block.memory->ExpectCopy(copy.to, copy.bytes, barrier->copies,
                                warp.number, copy.lane)) {
    warp.Report(block.memory->error());
    return false;
  }
  barrier->has_copies = barrier->phase;
  ++barrier->under_way;
  ++block.mbarriers.changes;
  block.bulk_copies.push_back(std::move(copy));
  return true;
}

bool IsAligned(Warp& warp, const char* what, uint64_t address,
               uint64_t alignment) {
  if (address % alignment == 0) return true;
  warp.Report(StrCat("a bulk copy ", what, " ", address,
                     ", which is not aligned to ", alignment, " bytes"));
  return false;
}

// cp.async.bulk.tensor [to], [map, {first...}], [mbarrier] {, policy of caches}
template <int rank>
void CopyTensor(Warp& warp, const Instruction& in) {
  uint64_t to[kLanes], maps[kLanes], mbarriers[kLanes];
  warp.ReadAddresses(in.slots[0], to);
  warp.ReadAddresses(in.slots[1], maps);
  warp.ReadAddresses(in.slots[2 + rank], mbarriers);
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((warp.mask >> lane & 1) == 0) continue;
    BulkCopy copy{.in = &in,
                  .warp = warp.number,
                  .lane = lane,
                  .to = to[lane],
                  .mbarrier = mbarriers[lane]};
    if (!IsAligned(warp, "to", copy.to, kTensorAlignment)) return;
    copy.tensor = ReadMap(warp, maps[lane], lane, rank);
    if (!copy.tensor) return;
    copy.bytes = static_cast<uint32_t>(copy.tensor->element_bytes);
    for (size_t i = 0; i < rank; ++i) {
      copy.first[i] = warp.Read<int32_t>(in.slots[2 + i])[lane];
      copy.bytes *= static_cast<uint32_t>(copy.tensor->box[i]);
    }
    if (!Issue(warp, std::move(copy))) return;
  }
}

// cp.async.bulk [to], [from], bytes, [mbarrier] {, policy of caches}
void CopyBytes(Warp& warp, const Instruction& in) {
  uint64_t to[kLanes], from[kLanes], mbarriers[kLanes];
  warp.ReadAddresses(in.slots[0], to);
  warp.ReadAddresses(in.slots[1], from);
  const auto* bytes = warp.Read<uint32_t>(in.slots[2]);
  warp.ReadAddresses(in.slots[3], mbarriers);
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((warp.mask >> lane & 1) == 0) continue;
    if (!IsAligned(warp, "to", to[lane], kChunk) ||
        !IsAligned(warp, "from", from[lane], kChunk) ||
        !IsAligned(warp, "of so many bytes:", bytes[lane], kChunk)) {
      return;
    }
    if (!Issue(warp, {.in = &in,
                      .warp = warp.number,
                      .lane = lane,
                      .to = to[lane],
                      .mbarrier = mbarriers[lane],
                      .bytes = bytes[lane],
                      .from = from[lane]})) {
      return;
    }
  }
}

// cp.async.bulk.prefetch.tensor [map, {first...}], prefetch.tensormap [map]: hints, of
// which the map must be one.
template <int rank>
void PrefetchTensor(Warp& warp, const Instruction& in) {
  uint64_t maps[kLanes];
  warp.ReadAddresses(in.slots[0], maps);
  for (int i = 0; i < rank; ++i) warp.Read<int32_t>(in.slots[1 + i]);
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((warp.mask >> lane & 1) == 0) continue;
    if (!ReadMap(warp, maps[lane], lane, rank)) return;
  }
}

// createpolicy.fractional.L2::evict_first.b64 policy, fraction: a hint, for copies.
void CreatePolicy(Warp& warp, const Instruction& in) {
  alignas(64) uint64_t policies[kLanes] = {};
  warp.Write(in.slots[0], policies);
}

template <uint64_t plus>
void PrefetchMap(Warp& warp, const Instruction& in) {
  uint64_t maps[kLanes];
  warp.ReadAddresses(in.slots[0], maps);
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((warp.mask >> lane & 1) == 0) continue;
    if ((maps[lane] + plus) % kMapAlignment == 0) continue;
    return warp.Report(
        StrCat("a tensor map at ", maps[lane], " is not aligned to 64 bytes"));
  }
}

// --- Running ----------------------------------------------------------------------

// Where the byte lies that would be at this address without a swizzle. "Swizzling
// modes" draws shared memory in lines of 128 bytes, from its start on, each of 8 chunks of
// 16. In line r chunk c trades places with c ^ r % n, where n is the number of chunks
// in the swizzle's width: 8, 4 or 2.
uint64_t Swizzled(uint64_t address, int swizzle) {
  if (swizzle == 0) return address;
  const auto chunks = static_cast<uint64_t>(swizzle) / kChunk;
  return address ^ (address >> 7 & (chunks - 1)) * kChunk;
}

// A chunk of a row of the box, of which the first element is `at`; zeros where the
// tensor has none. False: what it would read may not be read.
bool ReadChunk(Memory& memory, const BulkCopy& copy,
               const std::array<int64_t, gpu::kMaxTensorMapDims>& at,
               std::byte (&to)[kChunk]) {
  const gpu::TensorMapSpec& map = *copy.tensor;
  std::memset(to, 0, kChunk);
  auto row = reinterpret_cast<uint64_t>(map.data);
  for (size_t i = 1; i < static_cast<size_t>(map.rank); ++i) {
    if (at[i] < 0 || at[i] >= map.sizes[i]) return true;
    row += static_cast<uint64_t>(at[i] * map.steps[i]);
  }
  const auto bytes = static_cast<uint32_t>(map.element_bytes);
  const int64_t n = kChunk / bytes;
  const uint64_t first = row + static_cast<uint64_t>(at[0] * map.steps[0]);
  const auto read = [&](uint64_t from, uint32_t count, std::byte* into) {
    const std::byte* const where =
        memory.ReadForCopy(from, count, copy.warp, copy.lane);
    if (where != nullptr) std::memcpy(into, where, count);
    return where != nullptr;
  };
  if (at[0] >= 0 && at[0] + n <= map.sizes[0] && first % kChunk == 0) {
    return read(first, kChunk, to);
  }
  for (int64_t i = 0; i < n; ++i) {
    if (at[0] + i < 0 || at[0] + i >= map.sizes[0]) continue;
    const auto offset = static_cast<uint64_t>(i) * bytes;
    if (!read(first + offset, bytes, to + offset)) return false;
  }
  return true;
}

// Elements of the box lie in shared memory one after the other, the first dimension
// first, but for the swizzle.
bool RunTensorCopy(Memory& memory, const BulkCopy& copy) {
  const gpu::TensorMapSpec& map = *copy.tensor;
  const auto elements = kChunk / static_cast<uint32_t>(map.element_bytes);
  for (uint32_t chunk = 0; chunk < copy.bytes / kChunk; ++chunk) {
    std::array<int64_t, gpu::kMaxTensorMapDims> at = {};
    uint32_t rest = chunk * elements;
    for (size_t i = 0; i < static_cast<size_t>(map.rank); ++i) {
      const auto side = static_cast<uint32_t>(map.box[i]);
      at[i] = int64_t{copy.first[i]} + rest % side;
      rest /= side;
    }
    std::byte bytes[kChunk];
    if (!ReadChunk(memory, copy, at, bytes)) return false;
    const uint64_t to = Swizzled(copy.to + chunk * kChunk, map.swizzle);
    std::memcpy(memory.ShareOfCopy(to), bytes, kChunk);
  }
  return true;
}

bool RunByteCopy(Memory& memory, const BulkCopy& copy) {
  for (uint32_t i = 0; i < copy.bytes; i += kChunk) {
    const std::byte* const from =
        memory.ReadForCopy(copy.from + i, kChunk, copy.warp, copy.lane);
    if (from == nullptr) return false;
    std::memcpy(memory.ShareOfCopy(copy.to + i), from, kChunk);
  }
  return true;
}

template <int rank>
void AddRank(std::vector<Operation>* table) {
  const std::string dims = StrCat(rank, "d");
  std::vector<uint8_t> prefetch(1 + rank, 4);
  prefetch[0] = kAddress;
  std::vector<uint8_t> copy = {kAddress};
  copy.insert(copy.end(), prefetch.begin(), prefetch.end());
  copy.push_back(kAddress);
  std::vector<uint8_t> with_policy = copy;
  with_policy.push_back(8);
  for (const char* const tile : {"", ".tile"}) {
    for (const char* const to : {".shared::cluster", ".shared::cta"}) {
      const std::string name =
          StrCat("cp.async.bulk.tensor.", dims, to, ".global", tile,
                 ".mbarrier::complete_tx::bytes");
      table->push_back({name, CopyTensor<rank>, Flow::kNext, copy});
      table->push_back({name + ".L2::cache_hint", CopyTensor<rank>, Flow::kNext,
                        with_policy});
    }
    table->push_back(
        {StrCat("cp.async.bulk.prefetch.tensor.", dims, ".L2.global", tile),
         PrefetchTensor<rank>, Flow::kNext, prefetch});
  }
}

}  // namespace

std::string RunBulkCopy(Block& block, const BulkCopy& copy) {
  Memory& memory = *block.memory;
  if (!(copy.tensor ? RunTensorCopy(memory, copy)
                    : RunByteCopy(memory, copy))) {
    return memory.error();
  }
  return CompleteCopy(block.mbarriers, copy.mbarrier, copy.bytes);
}

std::vector<Operation> BulkCopyOperations() {
  std::vector<Operation> table = {
      {"prefetch.tensormap", PrefetchMap<0>, Flow::kNext, {kAddress}},
      {"prefetch.param.tensormap",
       PrefetchMap<kParamWindow>,
       Flow::kNext,
       {kAddress}},
  };
  for (const char* const first : {"evict_first", "evict_last"}) {
    table.push_back({StrCat("createpolicy.fractional.L2::", first, ".b64"),
                     CreatePolicy,
                     Flow::kNext,
                     {8, 4},
                     false,
                     1});
  }
  for (const char* const to : {".shared::cluster", ".shared::cta"}) {
    const std::string name =
        StrCat("cp.async.bulk", to, ".global.mbarrier::complete_tx::bytes");
    table.push_back(
        {name, CopyBytes, Flow::kNext, {kAddress, kAddress, 4, kAddress}});
    table.push_back({name + ".L2::cache_hint",
                     CopyBytes,
                     Flow::kNext,
                     {kAddress, kAddress, 4, kAddress, 8}});
  }
  AddRank<1>(&table);
  AddRank<2>(&table);
  AddRank<3>(&table);
  AddRank<4>(&table);
  AddRank<5>(&table);
  return table;
}

}  // namespace stowage::testing::ptx
