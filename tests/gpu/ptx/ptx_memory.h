#ifndef STOWAGE_TESTS_GPU_PTX_PTX_MEMORY_H_
#define STOWAGE_TESTS_GPU_PTX_PTX_MEMORY_H_

// The memory that a grid sees, and who touched it when: every byte remembers the
// access that wrote it last and one that read it. Two accesses by different
// threads of which one writes are a race, unless a barrier that both took part in
// lies between them:
//
//  - lanes of one warp: bar.warp.sync or bar.sync;
//  - warps of one block: bar.sync;
//  - blocks: nothing, within a grid; but atomics are no race with each other.
//
// An access is stamped with its segment, which is what a warp does between two
// barriers, and its lane. Segments are numbered as they begin, and blocks run one
// after the other; so comparing numbers tells what is ordered.
//
//   Memory memory;
//   memory.BeginGrid(allocations);
//   memory.BeginBlock(shared_bytes, warps);
//   std::string wrong = memory.Touch({.space = Space::kShared, ...});
//   memory.Barrier();

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace stowage::testing::ptx {

enum class Space : uint8_t { kGlobal, kShared };
enum class Access : uint8_t { kRead, kWrite, kAtomic };

class Memory {
 public:
  Memory();
  ~Memory();

  /// What the grid may touch: no byte beside these; if there are none, any.
  void BeginGrid(std::span<const std::span<std::byte>> allocations);
  /// Shared memory is NaN, and belongs to nobody.
  void BeginBlock(size_t shared_bytes, int warps);
  /// All warps have met.
  void Barrier();
  /// The lanes of a warp have met.
  void SyncWarp(int warp);

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
  bool Conflicts(Space space, uint32_t stamp, uint32_t mine, int warp) const;
  std::string Who(uint32_t stamp) const;
  uint32_t NewSegment(int owner);
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

  // Segments; the first of a grid, of a block, and of what lies between two of its
  // barriers. The first of each belongs to nobody, and stands for several.
  uint32_t next_ = 1;
  uint32_t grid_ = 1, block_ = 1, epoch_ = 1;
  std::vector<int> owners_;         // of segments from epoch_ on: their warp
  std::vector<uint32_t> segments_;  // by warp: the current one
  std::string error_;
};

}  // namespace stowage::testing::ptx

#endif  // STOWAGE_TESTS_GPU_PTX_PTX_MEMORY_H_
