#ifndef STOWAGE_TESTS_GPU_PTX_PTX_MEMORY_H_
#define STOWAGE_TESTS_GPU_PTX_PTX_MEMORY_H_

// Holds the memory of a kernel, and detects races. Each byte has stamps of its last write and of
// the reads since then. Two accesses by different threads, at least one of which writes, are a race
// unless they are ordered (ptx_order.h). These operations order accesses:
//
//  - between lanes of a warp: bar.warp.sync or bar.sync;
//  - between warps of a block: a barrier in which both participate;
//  - between lanes of a block: an mbarrier at which one lane arrives and for which the other waits;
//  - between blocks: nothing. Two atomic accesses, however, are never a race.
//
// Warpgroup matmuls read shared memory, and bulk copies write it, through the asynchronous proxy. A
// thread that writes a byte for such a read, or reads a byte ahead of such a write, must execute a
// proxy fence ahead of the barrier.
//
//   Memory memory;
//   memory.BeginGrid(allocations);
//   memory.BeginBlock(shared_bytes, warps);
//   std::string wrong = memory.Touch({.space = Space::kShared, ...});
//   memory.order().Barrier();

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/gpu/ptx/ptx_order.h"

namespace stowage::testing::ptx {

enum class Access : uint8_t { kRead, kWrite, kAtomic };

class Memory {
 public:
  Memory();
  ~Memory();

  /// Starts a grid, which may access only these bytes of global memory. If `allocations` is empty,
  /// it may access any address.
  void BeginGrid(std::span<const std::span<std::byte>> allocations);
  /// Starts a block. Fills shared memory with NaN and marks it as never written.
  void BeginBlock(size_t shared_bytes, int warps);
  Order& order() { return order_; }

  /// Records an access of `bytes` bytes by one lane, where `bytes` is a power of two up to 16.
  /// Returns a pointer to the bytes. If the access is an error, returns null and sets error().
  std::byte* Touch(Space space, Access access, uint64_t address, uint32_t bytes,
                   int warp, int lane) {
    std::byte* at = Locate(space, address, bytes);
    if (at == nullptr) return nullptr;
    return Note(space, access, address, bytes, warp, lane) ? at : nullptr;
  }

  /// Marks 16 bytes of shared memory as the destination of a cp.async. They are NaN, and any access
  /// to them is an error until Arrive. Returns false and sets error() on an error.
  bool Expect(uint64_t address, int warp, int lane);
  /// Completes a cp.async by writing its 16 bytes.
  void Arrive(uint64_t address, const std::byte* bytes, int warp, int lane);

  /// Records that a warpgroup matmul reads 16 aligned bytes of shared memory, and returns a pointer
  /// to them. `reads` is the matmul's number, from Order::BeginReads. Returns null and sets error()
  /// on an error.
  const std::byte* ReadForProduct(uint64_t address, int first_warp,
                                  uint32_t reads);

  /// Marks shared bytes as the destination of a bulk copy that the lane issues. The copy may write
  /// them at any time until its phase of the mbarrier completes. `stamp` is from
  /// Order::BeginCopies. Returns false and sets error() on an error.
  bool ExpectCopy(uint64_t address, uint32_t bytes, uint32_t stamp, int warp,
                  int lane);
  /// Returns a pointer to shared bytes that were marked with ExpectCopy.
  std::byte* ShareOfCopy(uint64_t address) { return shared_.data() + address; }
  /// Records a read of global memory by a bulk copy that the lane has issued. Returns what Touch
  /// returns.
  const std::byte* ReadForCopy(uint64_t address, uint32_t bytes, int warp,
                               int lane);

  /// Reserves 8 bytes of shared memory for an mbarrier. Any access to them is an error until
  /// GiveBack. Returns false and sets error() on an error.
  bool TakeForMbarrier(uint64_t address, int warp, int lane);
  /// Releases the bytes of an mbarrier, and marks them as never written.
  void GiveBack(uint64_t address, int warp, int lane);

  const std::string& error() const { return error_; }

 private:
  // The stamps of the last write and of the reads of each byte.
  struct Page;
  struct Stamps {
    uint32_t* writer;
    uint32_t* reader;
  };
  struct Allocation {
    uint64_t begin, end;
    std::vector<Page*> pages;
  };

  std::byte* Locate(Space space, uint64_t address, uint32_t bytes);
  Stamps StampsOf(Space space, uint64_t address);
  bool Note(Space space, Access access, uint64_t address, uint32_t bytes,
            int warp, int lane);
  bool NoteSlowly(Space space, Access access, uint64_t address, uint32_t bytes,
                  int warp, int lane, Stamps stamps);
  std::string CannotOverwrite(uint64_t address, int warp, int lane);
  std::string CannotReach(const std::string& byte, uint32_t writer,
                          int first_warp) const;
  void ForgetAll();

  Page* NewPage();

  bool anywhere_ = false;
  std::unordered_map<uint64_t, Page*> page_at_;  // if anywhere_
  std::vector<Allocation> allocations_;
  size_t last_ = 0;  // the allocation that was accessed last
  std::vector<std::unique_ptr<Page>> pages_;
  size_t pages_used_ = 0;

  std::vector<std::byte> shared_;
  size_t shared_bytes_ = 0;
  bool has_copies_ = false;  // copies or mbarriers have marked shared bytes
  std::vector<uint32_t> shared_writer_, shared_reader_;

  Order order_;
  std::string error_;
};

}  // namespace stowage::testing::ptx

#endif  // STOWAGE_TESTS_GPU_PTX_PTX_MEMORY_H_
