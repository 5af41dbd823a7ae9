// Loads, stores, atomics and asynchronous copies, and what a kernel tells the graph around
// it. PTX ISA 9.0, sections 9.7.9.8 to 9.7.9.11, 9.7.9.25 and 9.7.13.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "base/strings.h"
#include "tests/gpu/ptx/ptx_block.h"
#include "tests/gpu/ptx/ptx_module.h"
#include "tests/gpu/ptx/ptx_warp.h"

namespace stowage::testing::ptx {
namespace {

enum class From : uint8_t { kGlobal, kShared, kParam };

// Into a register that may be wider: by its sign, or by zeros.
template <typename T>
void WriteWidened(Warp& warp, const Slot& slot, const T (&values)[kLanes]) {
  const auto as = [&]<typename D>(D) {
    alignas(64) D d[kLanes];
    for (int i = 0; i < kLanes; ++i) d[i] = static_cast<D>(values[i]);
    warp.Write(slot, d);
  };
  if (slot.bytes == sizeof(T)) return warp.Write(slot, values);
  if constexpr (std::is_integral_v<T>) {
    if (slot.bytes > sizeof(T)) {
      if (slot.bytes == 2)
        return as(std::conditional_t<std::is_signed_v<T>, int16_t, uint16_t>{});
      if (slot.bytes == 4)
        return as(std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>{});
      return as(std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>{});
    }
  }
  if (slot.number != kDiscarded) warp.Report("a register too narrow");
}

template <typename T>
void ReadNarrowed(Warp& warp, const Slot& slot, T (&values)[kLanes]) {
  const auto from = [&]<typename S>(S) {
    const S* s = warp.Read<S>(slot);
    for (int i = 0; i < kLanes; ++i) values[i] = static_cast<T>(s[i]);
  };
  if (slot.bytes == sizeof(T)) {
    std::memcpy(values, warp.Read<T>(slot), sizeof(values));
    return;
  }
  if constexpr (std::is_integral_v<T>) {
    if (slot.bytes == 2 && sizeof(T) < 2) return from(uint16_t{});
    if (slot.bytes == 4 && sizeof(T) < 4) return from(uint32_t{});
    if (slot.bytes == 8 && sizeof(T) < 8) return from(uint64_t{});
  }
  warp.Report("a register too narrow");
}

// Reads the bytes of one lane that are used.
bool ReadUsed(Warp& warp, Space space, uint64_t address, uint32_t bytes,
              uint32_t used, int lane, std::byte* to) {
  Memory& memory = *warp.block->memory;
  const uint32_t all = (uint32_t{1} << bytes) - 1;
  if ((used & all) == all) {
    const std::byte* const from =
        memory.Touch(space, Access::kRead, address, bytes, warp.number, lane);
    if (from != nullptr) std::memcpy(to, from, bytes);
    return from != nullptr;
  }
  for (uint32_t i = 0; i < bytes; ++i) {
    if ((used >> i & 1) == 0) continue;
    const std::byte* const from =
        memory.Touch(space, Access::kRead, address + i, 1, warp.number, lane);
    if (from == nullptr) return false;
    to[i] = *from;
  }
  return true;
}

template <From space, typename T>
void Load(Warp& warp, const Instruction& in) {
  const uint32_t n = std::min(in.count - 1, 4u);  // elements of a vector
  const auto bytes = static_cast<uint32_t>(n * sizeof(T));
  uint64_t addresses[kLanes];
  warp.ReadAddresses(in.slots[n], addresses);
  alignas(64) T values[4][kLanes] = {};
  Block& block = *warp.block;
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((warp.mask >> lane & 1) == 0) continue;
    const uint64_t address = addresses[lane];
    alignas(16) std::byte read[16] = {};
    if constexpr (space == From::kParam) {
      if (address % bytes != 0 || address > block.params.size() ||
          block.params.size() - address < bytes) {
        return warp.Report(StrCat("a read of ", bytes, " bytes at ", address,
                                  " of ", block.params.size(),
                                  " bytes of params"));
      }
      std::memcpy(read, block.params.data() + address, bytes);
    } else {
      if (address % bytes != 0) {
        return warp.Report(StrCat("an access of ", bytes, " bytes at address ",
                                  address, " is not aligned"));
      }
      if (!ReadUsed(warp,
                    space == From::kShared ? Space::kShared : Space::kGlobal,
                    address, bytes, in.used_bytes, lane, read)) {
        return warp.Report(block.memory->error());
      }
    }
    for (uint32_t i = 0; i < n; ++i) {
      std::memcpy(&values[i][lane], read + i * sizeof(T), sizeof(T));
    }
  }
  // What is not used is not written, and so may not be read. (nvcc 13.0 says so of
  // some params that it reads all the same.)
  constexpr uint32_t kElement = (uint32_t{1} << sizeof(T)) - 1;
  for (uint32_t i = 0; i < n; ++i) {
    if (space != From::kParam &&
        (in.used_bytes >> (i * sizeof(T)) & kElement) == 0)
      continue;
    WriteWidened(warp, in.slots[i], values[i]);
  }
}

template <Space space, typename T>
void Store(Warp& warp, const Instruction& in) {
  const uint32_t n = std::min(in.count - 1, 4u);
  const auto bytes = static_cast<uint32_t>(n * sizeof(T));
  uint64_t addresses[kLanes];
  warp.ReadAddresses(in.slots[0], addresses);
  alignas(64) T values[4][kLanes];
  for (uint32_t i = 0; i < n; ++i) {
    ReadNarrowed(warp, in.slots[i + 1], values[i]);
  }
  Memory& memory = *warp.block->memory;
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((warp.mask >> lane & 1) == 0) continue;
    std::byte* const to = memory.Touch(space, Access::kWrite, addresses[lane],
                                       bytes, warp.number, lane);
    if (to == nullptr) return warp.Report(memory.error());
    for (uint32_t i = 0; i < n; ++i) {
      std::memcpy(to + i * sizeof(T), &values[i][lane], sizeof(T));
    }
  }
}

struct AddTo {
  uint32_t operator()(uint32_t a, uint32_t b) const { return a + b; }
};
struct OrTo {
  uint32_t operator()(uint32_t a, uint32_t b) const { return a | b; }
};
struct MinTo {
  uint32_t operator()(uint32_t a, uint32_t b) const { return std::min(a, b); }
};

// atom d, [a], b: the old value. Lanes one after the other.
template <Space space, typename F>
void Atomic(Warp& warp, const Instruction& in) {
  uint64_t addresses[kLanes];
  warp.ReadAddresses(in.slots[1], addresses);
  const auto* b = warp.Read<uint32_t>(in.slots[2]);
  alignas(64) uint32_t d[kLanes] = {};
  Memory& memory = *warp.block->memory;
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((warp.mask >> lane & 1) == 0) continue;
    std::byte* const at = memory.Touch(space, Access::kAtomic, addresses[lane],
                                       4, warp.number, lane);
    if (at == nullptr) return warp.Report(memory.error());
    std::memcpy(&d[lane], at, 4);
    const uint32_t value = F()(d[lane], b[lane]);
    std::memcpy(at, &value, 4);
  }
  warp.Write(in.slots[0], d);
}

// --- Asynchronous copies ----------------------------------------------------------
//
// The bytes arrive as late as they may: at the wait for their group. Until then
// shared memory is NaN there, and must not be touched.

// cp.async.cg.shared.global [to], [from], 16, n: n bytes, then zeros.
void CopyAsync(Warp& warp, const Instruction& in) {
  uint64_t to[kLanes], from[kLanes];
  warp.ReadAddresses(in.slots[0], to);
  warp.ReadAddresses(in.slots[1], from);
  const auto* size = warp.Read<uint32_t>(in.slots[2]);
  const auto* n = warp.Read<uint32_t>(in.slots[3]);
  Memory& memory = *warp.block->memory;
  AsyncCopies& copies = warp.block->copies[static_cast<size_t>(warp.number)];
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((warp.mask >> lane & 1) == 0) continue;
    if (size[lane] != 16 || n[lane] > 16) {
      return warp.Report("a copy that is not of 16 bytes");
    }
    if (from[lane] % 16 != 0) {
      return warp.Report(StrCat("a copy from address ", from[lane],
                                ", which is not aligned to 16 bytes"));
    }
    if (!memory.Expect(to[lane], warp.number, lane)) {
      return warp.Report(memory.error());
    }
    copies.under_way.push_back(
        {copies.group, lane, to[lane], from[lane], n[lane]});
  }
}

void CommitGroup(Warp& warp, const Instruction&) {
  ++warp.block->copies[static_cast<size_t>(warp.number)].group;
}

// cp.async.wait_group n: until at most the n youngest groups are under way.
void WaitGroup(Warp& warp, const Instruction& in) {
  const uint32_t n = *warp.Read<uint32_t>(in.slots[0]);
  Memory& memory = *warp.block->memory;
  AsyncCopies& copies = warp.block->copies[static_cast<size_t>(warp.number)];
  for (const AsyncCopy& copy : copies.under_way) {
    if (copy.group + n >= copies.group) continue;
    std::byte bytes[16] = {};
    for (uint32_t i = 0; i < copy.bytes; ++i) {
      const std::byte* const from =
          memory.Touch(Space::kGlobal, Access::kRead, copy.from + i, 1,
                       warp.number, copy.lane);
      if (from == nullptr) return warp.Report(memory.error());
      bytes[i] = *from;
    }
    memory.Arrive(copy.to, bytes, warp.number, copy.lane);
  }
  std::erase_if(copies.under_way, [&](const AsyncCopy& copy) {
    return copy.group + n < copies.group;
  });
}

// Addresses of global memory are what they are in the space of all addresses.
void GlobalAddress(Warp& warp, const Instruction& in) {
  alignas(64) uint64_t d[kLanes];
  std::memcpy(d, warp.Read<uint64_t>(in.slots[1]), sizeof(d));
  warp.Write(in.slots[0], d);
}
// From the addresses of a space to those of all, or back.
template <uint64_t plus>
void MoveAddress(Warp& warp, const Instruction& in) {
  const auto* a = warp.Read<uint64_t>(in.slots[1]);
  alignas(64) uint64_t d[kLanes];
  for (int i = 0; i < kLanes; ++i) d[i] = a[i] + plus;
  warp.Write(in.slots[0], d);
}

// st.param.type [param], a: what a call will be handed, which is a register here.
template <typename T>
void StoreParam(Warp& warp, const Instruction& in) {
  if (in.slots[0].plus != 0) return warp.Report("a part of a call's param");
  alignas(64) T values[kLanes];
  std::memcpy(values, warp.Read<T>(in.slots[1]), sizeof(values));
  warp.Write(in.slots[0], values);
}

// call.uni cudaGraphSetConditional, (handle, value): the handle is the address where the
// device looks for the value. Two threads that set one are a race, as CUDA says.
void SetConditional(Warp& warp, const Instruction& in) {
  const auto* handles = warp.Read<uint64_t>(in.slots[0]);
  const auto* values = warp.Read<uint32_t>(in.slots[1]);
  Memory& memory = *warp.block->memory;
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((warp.mask >> lane & 1) == 0) continue;
    std::byte* const to = memory.Touch(Space::kGlobal, Access::kWrite,
                                       handles[lane], 4, warp.number, lane);
    if (to == nullptr) return warp.Report(memory.error());
    std::memcpy(to, &values[lane], 4);
  }
}

void Fence(Warp&, const Instruction&) {}  // blocks run one after the other

template <typename T>
void AddType(const std::string& type, std::vector<Operation>* table) {
  const auto add = [&](const std::string& name, Handler run,
                       std::vector<uint8_t> widths) {
    table->push_back({name, run, Flow::kNext, std::move(widths)});
  };
  for (const size_t n : {1, 2, 4}) {
    if (n * sizeof(T) > 16) continue;
    const std::string vector =
        n == 1 ? StrCat(".", type) : StrCat(".v", n, ".", type);
    std::vector<uint8_t> into(n, kAnySize), from(n, kAnySize);
    into.push_back(kAddress);
    from.insert(from.begin(), kAddress);
    for (const char* const cache : {"", ".cs", ".nc"}) {
      add(StrCat("ld.global", cache, vector), Load<From::kGlobal, T>, into);
    }
    add("ld.shared" + vector, Load<From::kShared, T>, into);
    add("ld.param" + vector, Load<From::kParam, T>, into);
    for (const char* const how :
         {"st.global", "st.global.cs", "st.volatile.global"}) {
      add(how + vector, Store<Space::kGlobal, T>, from);
    }
    add("st.shared" + vector, Store<Space::kShared, T>, from);
  }
}

}  // namespace

std::vector<Operation> MemoryOperations() {
  std::vector<Operation> table;
  AddType<uint8_t>("u8", &table);
  AddType<int8_t>("s8", &table);
  AddType<uint16_t>("u16", &table);
  AddType<int16_t>("s16", &table);
  AddType<uint32_t>("u32", &table);
  AddType<int32_t>("s32", &table);
  AddType<uint64_t>("u64", &table);
  AddType<int64_t>("s64", &table);
  AddType<uint16_t>("b16", &table);
  AddType<uint32_t>("b32", &table);
  AddType<uint64_t>("b64", &table);
  AddType<float>("f32", &table);
  AddType<double>("f64", &table);
  const std::vector<uint8_t> atomic = {4, kAddress, 4};
  const auto add = [&](const char* name, Handler run,
                       std::vector<uint8_t> widths) {
    table.push_back({name, run, Flow::kNext, std::move(widths)});
  };
  add("atom.global.add.u32", Atomic<Space::kGlobal, AddTo>, atomic);
  add("atom.global.or.b32", Atomic<Space::kGlobal, OrTo>, atomic);
  add("atom.global.min.u32", Atomic<Space::kGlobal, MinTo>, atomic);
  add("atom.shared.add.u32", Atomic<Space::kShared, AddTo>, atomic);
  add("cp.async.cg.shared.global", CopyAsync, {kAddress, kAddress, 4, 4});
  add("cp.async.commit_group", CommitGroup, {});
  add("cp.async.wait_group", WaitGroup, {4});
  add("cvta.to.global.u64", GlobalAddress, {8, 8});
  add("cvta.shared.u64", MoveAddress<kSharedWindow>, {8, 8});
  add("cvta.to.shared.u64", MoveAddress<0 - kSharedWindow>, {8, 8});
  add("cvta.param.u64", MoveAddress<kParamWindow>, {8, 8});
  add("membar.sys", Fence, {});
  add("st.param.b32", StoreParam<uint32_t>, {kAddress, 4});
  add("st.param.b64", StoreParam<uint64_t>, {kAddress, 8});
  add("call.uni cudaGraphSetConditional", SetConditional, {8, 4});
  return table;
}

}  // namespace stowage::testing::ptx
