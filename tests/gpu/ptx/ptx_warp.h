#ifndef STOWAGE_TESTS_GPU_PTX_PTX_WARP_H_
#define STOWAGE_TESTS_GPU_PTX_PTX_WARP_H_

// Defines the state on which an instruction operates: the registers of 32 lanes, the mask of the
// lanes that execute it, and their block. The interpreter tracks registers that a lane never wrote,
// and values computed from them. It reports one that is used as an address, is stored, guards an
// instruction, or is exchanged between lanes.
//
//   const uint32_t* a = warp.Read<uint32_t>(in.slots[1]);
//   ...
//   warp.Write(in.slots[0], result);

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/gpu/ptx/ptx_module.h"

namespace stowage::testing::ptx {

struct Block;
struct Products;

struct Warp {
  uint32_t mask = 0;       // lanes that execute the instruction
  bool lane_wise = false;  // Operation::lane_wise of the instruction
  uint32_t unwritten = 0;  // lanes that read a register never written
  std::byte* registers = nullptr;
  uint32_t* written = nullptr;  // per register, the lanes that wrote it
  const std::byte* constants = nullptr;
  Block* block = nullptr;
  int number = 0;  // index of the warp in its block
  /// The warpgroup matmuls of this warp (ptx_warpgroups.h), or null if the kernel has none.
  Products* products = nullptr;
  /// The address of an mbarrier that the instruction polled and whose phase is incomplete.
  std::optional<uint64_t> polled = {};

  /// Returns the 32 elements of an operand.
  template <typename T>
  const T* Read(const Slot& slot) {
    if (slot.number == kConstant) {
      return reinterpret_cast<const T*>(constants + slot.offset);
    }
    const uint32_t missing = Unwritten(slot);
    unwritten |= missing;
    if (missing != 0) CheckUnwritten(slot);
    return reinterpret_cast<const T*>(registers + slot.offset);
  }

  template <typename T>
  void Write(const Slot& slot, const T (&values)[kLanes]) {
    if (slot.number == kDiscarded) return;
    T* const to = reinterpret_cast<T*>(registers + slot.offset);
    if (mask == kAllLanes) {
      std::memcpy(to, values, sizeof(values));
    } else {
      for (int i = 0; i < kLanes; ++i) {
        to[i] = (mask >> i & 1) != 0 ? values[i] : to[i];
      }
    }
    MarkWritten(slot);
  }

  uint32_t ReadPredicate(const Slot& slot) { return *Read<uint32_t>(slot); }
  void WritePredicate(const Slot& slot, uint32_t lanes) {
    if (slot.number == kDiscarded) return;
    uint32_t* const to = reinterpret_cast<uint32_t*>(registers + slot.offset);
    *to = (*to & ~mask) | (lanes & mask);
    MarkWritten(slot);
  }
  void MarkWritten(const Slot& slot) {
    uint32_t& lanes = written[slot.number];
    lanes = (lanes & ~mask) | (mask & ~unwritten);
    if (products != nullptr) NoteChange(slot);
  }

  /// Reads the addresses of an operand in brackets.
  void ReadAddresses(const Slot& slot, uint64_t (&to)[kLanes]) {
    const auto plus = static_cast<uint64_t>(slot.plus);
    if (slot.bytes == 4) {
      const auto* base = Read<uint32_t>(slot);
      for (int i = 0; i < kLanes; ++i) {
        to[i] = static_cast<uint32_t>(base[i] + plus);
      }
    } else {
      const auto* base = Read<uint64_t>(slot);
      for (int i = 0; i < kLanes; ++i) to[i] = base[i] + plus;
    }
  }

  /// Returns the lanes that execute the instruction but never wrote the register.
  uint32_t Unwritten(const Slot& slot) const {
    return slot.number == kConstant ? 0 : mask & ~written[slot.number];
  }

  /// Reports an error of the instruction. The first report ends the grid.
  void Report(const std::string& what);
  /// Reports a read of a register that was never written, unless the instruction is lane_wise. Also
  /// reports a read of a register that an unfinished warpgroup matmul uses.
  void CheckUnwritten(const Slot& slot);
  /// Tracks that a register was written, for warpgroup matmuls. Requires that the kernel has them.
  void NoteChange(const Slot& slot);
};

// LaneTable collects operations that apply a function of elements to each of the 32 lanes.
//
//   LaneTable table;
//   table.Two<uint32_t, uint32_t, uint32_t, Add>("add.u32");
//   return table.Take();

template <typename T>
using Unsigned =
    std::conditional_t<sizeof(T) == 8, uint64_t,
                       std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>>;

template <typename D, typename A, typename F>
void Map1(Warp& warp, const Instruction& in) {
  const A* a = warp.Read<A>(in.slots[1]);
  alignas(64) D d[kLanes];
  for (int i = 0; i < kLanes; ++i) d[i] = static_cast<D>(F()(a[i]));
  warp.Write(in.slots[0], d);
}

template <typename D, typename A, typename B, typename F>
void Map2(Warp& warp, const Instruction& in) {
  const A* a = warp.Read<A>(in.slots[1]);
  const B* b = warp.Read<B>(in.slots[2]);
  alignas(64) D d[kLanes];
  for (int i = 0; i < kLanes; ++i) d[i] = static_cast<D>(F()(a[i], b[i]));
  warp.Write(in.slots[0], d);
}

template <typename D, typename A, typename C, typename F>
void Map3(Warp& warp, const Instruction& in) {
  const A* a = warp.Read<A>(in.slots[1]);
  const A* b = warp.Read<A>(in.slots[2]);
  const C* c = warp.Read<C>(in.slots[3]);
  alignas(64) D d[kLanes];
  for (int i = 0; i < kLanes; ++i) d[i] = static_cast<D>(F()(a[i], b[i], c[i]));
  warp.Write(in.slots[0], d);
}

template <typename T>
constexpr uint8_t Size() {
  return sizeof(T);
}

/// A table of lane_wise operations (Operation::lane_wise).
class LaneTable {
 public:
  template <typename D, typename A, typename F>
  void One(const std::string& name) {
    rows_.push_back({name, Map1<D, A, F>, Flow::kNext, {Size<D>(), Size<A>()}});
  }
  template <typename D, typename A, typename B, typename F>
  void Two(const std::string& name) {
    rows_.push_back({name,
                     Map2<D, A, B, F>,
                     Flow::kNext,
                     {Size<D>(), Size<A>(), Size<B>()}});
  }
  template <typename D, typename A, typename C, typename F>
  void Three(const std::string& name) {
    rows_.push_back({name,
                     Map3<D, A, C, F>,
                     Flow::kNext,
                     {Size<D>(), Size<A>(), Size<A>(), Size<C>()}});
  }
  void Row(const std::string& name, Handler run, std::vector<uint8_t> widths) {
    rows_.push_back({name, run, Flow::kNext, std::move(widths)});
  }

  std::vector<Operation> Take() {
    for (Operation& row : rows_) row.lane_wise = true;
    return std::move(rows_);
  }

 private:
  std::vector<Operation> rows_;
};

}  // namespace stowage::testing::ptx

#endif  // STOWAGE_TESTS_GPU_PTX_PTX_WARP_H_
