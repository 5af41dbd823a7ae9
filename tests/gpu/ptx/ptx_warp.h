#ifndef STOWAGE_TESTS_GPU_PTX_PTX_WARP_H_
#define STOWAGE_TESTS_GPU_PTX_PTX_WARP_H_

// The state that an instruction works on: the registers of 32 lanes, the mask of the lanes that
// execute it, and their block. A register that a lane never wrote, or a value computed from
// one, is reported where it is an address, is stored, guards an instruction, or is exchanged
// between lanes.
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
  uint32_t mask = 0;       // of the lanes that execute the instruction
  bool lane_wise = false;  // what it is (ptx_module.h)
  uint32_t unwritten = 0;  // lanes that read what was never written
  std::byte* registers = nullptr;
  uint32_t* written = nullptr;  // by number of a register: lanes that wrote it
  const std::byte* constants = nullptr;
  Block* block = nullptr;
  int number = 0;  // of the warp, in its block
  /// Of its warpgroup (ptx_warpgroups.h). Null: the kernel has none.
  Products* products = nullptr;
  /// The mbarrier that the instruction found in a phase that lanes still wait for.
  std::optional<uint64_t> polled = {};

  /// The 32 elements of an operand.
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

  /// The addresses of an operand in brackets.
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

  /// Of the lanes that execute the instruction, those that never wrote it.
  uint32_t Unwritten(const Slot& slot) const {
    return slot.number == kConstant ? 0 : mask & ~written[slot.number];
  }

  /// What is wrong with the instruction; the first that is said ends the grid.
  void Report(const std::string& what);
  /// Reports a read of a register that was never written, unless it may be harmless.
  void CheckUnwritten(const Slot& slot);
  /// Notes, where there are products, that a register was written (ptx_warpgroups.cc).
  void NoteChange(const Slot& slot);
};

// Operations of single lanes: a function of elements, applied to the 32 lanes of its operands
// and named in a table.
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

/// Operations of lanes on their own: their results are what their operands are
/// (Operation::lane_wise).
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
