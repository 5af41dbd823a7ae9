#ifndef STOWAGE_TESTS_GPU_PTX_PTX_MEMORY_H_
#define STOWAGE_TESTS_GPU_PTX_PTX_MEMORY_H_

// The memory that a grid sees, and who touched it when: every byte remembers the
// access that wrote it last and those that have read it since. Two accesses by different
// threads of which one writes are a race, unless an order lies between them
// (ptx_order.h):
//
//  - lanes of one warp: bar.warp.sync or bar.sync;
//  - warps of one block: a barrier that both took part in;
//  - lanes of one block: an mbarrier at which one arrived and for which the other waited;
//  - blocks: nothing, within a grid; but atomics are no race with each other.
//
// What a product of a warpgroup reads it reads through another proxy, through which bulk
// copies write: the thread that wrote the byte, or read what a copy then writes, must
// have fenced that, before the barrier.
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

  /// What the grid may touch: no byte beside these; if there are none, any.
  void BeginGrid(std::span<const std::span<std::byte>> allocations);
  /// Shared memory is NaN, and belongs to nobody.
  void BeginBlock(size_t shared_bytes, int warps);
  Order& order() { return order_; }

  /// Notes an access of `bytes`, a power of two up to 16, by one lane. Returns where
  /// the bytes are, or null: error() then says what is wrong.
  std::byte* Touch(Space space, Access access, uint64_t address, uint32_t bytes,
                   int warp, int lane) {
    std::byte* at = Locate(space, address, bytes);
    if (at == nullptr) return nullptr;
    return Note(space, access, address, bytes, warp, lane) ? at : nullptr;
  }

  /// 16 bytes of shared memory that a copy will fill: NaN that nobody may touch
  /// until Arrive.
  bool Expect(uint64_t address, int warp, int lane);
  void Arrive(uint64_t address, const std::byte* bytes, int warp, int lane);

  /// 16 bytes of shared memory, aligned, that a product reads, of this number
  /// (Order::BeginReads). Null: error() says what is wrong.
  const std::byte* ReadForProduct(uint64_t address, int first_warp,
                                  uint32_t reads);

  /// Shared bytes that a bulk copy, issued by the lane, will write at any time until
  /// those who know of the end of its phase, with the stamp of Order::BeginCopies.
  bool ExpectCopy(uint64_t address, uint32_t bytes, uint32_t stamp, int warp,
                  int lane);
  /// Where the copy's bytes are: `bytes` from `address` on, which it expected.
  std::byte* ShareOfCopy(uint64_t address) { return shared_.data() + address; }
  /// Notes a read of global memory by a bulk copy that the lane has issued; like Touch.
  const std::byte* ReadForCopy(uint64_t address, uint32_t bytes, int warp,
                               int lane);

  /// 8 bytes of shared memory become an mbarrier: no thread may touch them until they
  /// are given back, and are then as if never written.
  bool TakeForMbarrier(uint64_t address, int warp, int lane);
  void GiveBack(uint64_t address, int warp, int lane);

  const std::string& error() const { return error_; }

 private:
  // By byte: the stamps of who wrote it and who read it.
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
  std::unordered_map<uint64_t, Page*> page_at_;  // of addresses that may be any
  std::vector<Allocation> allocations_;
  size_t last_ = 0;  // the allocation that was touched last
  std::vector<std::unique_ptr<Page>> pages_;
  size_t pages_used_ = 0;

  std::vector<std::byte> shared_;
  size_t shared_bytes_ = 0;
  bool has_copies_ = false;  // that may still be under way
  std::vector<uint32_t> shared_writer_, shared_reader_;

  Order order_;
  std::string error_;
};

}  // namespace stowage::testing::ptx

#endif  // STOWAGE_TESTS_GPU_PTX_PTX_MEMORY_H_
