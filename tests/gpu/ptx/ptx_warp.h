#ifndef STOWAGE_TESTS_GPU_PTX_PTX_WARP_H_
#define STOWAGE_TESTS_GPU_PTX_PTX_WARP_H_

// What an instruction sees: the registers of 32 lanes, which of the lanes execute
// it, and the block around them. A register that a lane never wrote, or computed of
// one, is reported where it matters: as an address, as what is stored, as a guard, and
// by what lanes do together.
//
//   const uint32_t* a = warp.Read<uint32_t>(in.slots[1]);
//   ...
//   warp.Write(in.slots[0], result);

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

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

}  // namespace stowage::testing::ptx

#endif  // STOWAGE_TESTS_GPU_PTX_PTX_WARP_H_
