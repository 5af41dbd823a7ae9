#include "tests/gpu/ptx/ptx_memory.h"

#include <algorithm>
#include <cstring>

#include "base/strings.h"

namespace stowage::testing::ptx {
namespace {

constexpr uint64_t kPageBytes = 4096;

// A stamp is 64 times its segment, and one of these.
constexpr uint32_t kManyLanes = 32, kAtomicLane = 33;
constexpr uint32_t kUnderWay = 0xFFFFFFFF;  // an asynchronous copy
constexpr uint32_t kLastSegment = (uint32_t{1} << 26) - 4096;

constexpr uint32_t SegmentOf(uint32_t stamp) { return stamp >> 6; }
constexpr uint32_t LaneOf(uint32_t stamp) { return stamp & 63; }

constexpr int kSeveral = -1;

}  // namespace

struct Memory::Page {
  uint32_t writer[kPageBytes] = {};
  uint32_t reader[kPageBytes] = {};
};

Memory::Memory() = default;
Memory::~Memory() = default;

uint32_t Memory::NewSegment(int owner) {
  owners_.push_back(owner);
  return next_++;
}

void Memory::ForgetAll() {
  for (const auto& page : pages_) *page = Page{};
  std::ranges::fill(shared_writer_, 0u);
  std::ranges::fill(shared_reader_, 0u);
  next_ = 1;
}

void Memory::BeginGrid(std::span<const std::span<std::byte>> allocations) {
  if (next_ > kLastSegment / 2) ForgetAll();
  allocations_.clear();
  page_at_.clear();
  anywhere_ = allocations.empty();
  for (const std::span<std::byte> a : allocations) {
    if (a.empty()) continue;
    const auto begin = reinterpret_cast<uint64_t>(a.data());
    const uint64_t end = begin + a.size();
    allocations_.push_back(
        {begin, end,
         std::vector<Page*>((end - 1) / kPageBytes - begin / kPageBytes + 1)});
  }
  last_ = 0;
  // Stamps of earlier grids are below grid_: pages are used again as they are.
  pages_used_ = 0;
  owners_.clear();
  grid_ = next_;
  NewSegment(kSeveral);
  error_.clear();
}

void Memory::BeginBlock(size_t shared_bytes, int warps) {
  if (shared_.size() < shared_bytes) {
    shared_.resize(shared_bytes);
    shared_writer_.resize(shared_bytes);
    shared_reader_.resize(shared_bytes);
  }
  shared_bytes_ = shared_bytes;
  std::fill_n(shared_.begin(), shared_bytes, std::byte{0xFF});
  // What a copy of the block before was still to fill is free again.
  if (has_copies_) {
    std::replace(shared_writer_.begin(), shared_writer_.end(), kUnderWay, 0u);
    has_copies_ = false;
  }
  block_ = next_;
  segments_.assign(static_cast<size_t>(warps), 0);
  Barrier();
}

void Memory::Barrier() {
  owners_.clear();
  epoch_ = next_;
  NewSegment(kSeveral);
  for (size_t warp = 0; warp < segments_.size(); ++warp) {
    segments_[warp] = NewSegment(static_cast<int>(warp));
  }
}

void Memory::SyncWarp(int warp) {
  segments_[static_cast<size_t>(warp)] = NewSegment(warp);
}

std::byte* Memory::Locate(Space space, uint64_t address, uint32_t bytes) {
  if (address % bytes != 0) {
    error_ = StrCat("an access of ", bytes, " bytes at address ", address,
                    " is not aligned");
    return nullptr;
  }
  if (space == Space::kShared) {
    if (address < shared_bytes_ && shared_bytes_ - address >= bytes) {
      return shared_.data() + address;
    }
    error_ = StrCat("an access of ", bytes, " bytes at ", address, " of ",
                    shared_bytes_, " bytes of shared memory");
    return nullptr;
  }
  if (anywhere_) return reinterpret_cast<std::byte*>(address);
  for (size_t tried = 0; tried < allocations_.size(); ++tried) {
    const Allocation& a = allocations_[last_];
    if (address >= a.begin && address < a.end && a.end - address >= bytes) {
      return reinterpret_cast<std::byte*>(address);
    }
    last_ = last_ + 1 == allocations_.size() ? 0 : last_ + 1;
  }
  error_ = StrCat("an access of ", bytes, " bytes at address ", address,
                  " is outside of what the kernel was given");
  for (const Allocation& a : allocations_) {
    const auto distance =
        static_cast<int64_t>(address) -
        static_cast<int64_t>(address < a.begin ? a.begin : a.end);
    if (distance > -4096 && distance < 4096) {
      error_ += StrCat(", ", distance, " bytes from the ",
                       address < a.begin ? "start" : "end", " of one of ",
                       a.end - a.begin, " bytes");
    }
  }
  return nullptr;
}

Memory::Stamps Memory::StampsOf(Space space, uint64_t address) {
  if (space == Space::kShared) {
    return {shared_writer_.data() + address, shared_reader_.data() + address};
  }
  Page** page;
  if (anywhere_) {
    page = &page_at_[address / kPageBytes];
  } else {
    Allocation& a = allocations_[last_];  // found by Locate
    page = &a.pages[address / kPageBytes - a.begin / kPageBytes];
  }
  if (*page == nullptr) *page = NewPage();
  const uint64_t at = address % kPageBytes;
  return {(*page)->writer + at, (*page)->reader + at};
}

Memory::Page* Memory::NewPage() {
  if (pages_used_ == pages_.size()) pages_.push_back(std::make_unique<Page>());
  return pages_[pages_used_++].get();
}

// Whether a stamp and an access of `mine` are unordered.
bool Memory::Conflicts(Space space, uint32_t stamp, uint32_t mine,
                       int warp) const {
  const uint32_t segment = SegmentOf(stamp);
  if (segment < (space == Space::kShared ? block_ : grid_)) return false;
  if (segment < block_) return true;  // another block
  if (segment < epoch_) return false;
  const int owner = owners_[segment - epoch_];
  if (owner != warp) return true;  // another warp, or several
  return segment == SegmentOf(mine) && LaneOf(stamp) != LaneOf(mine);
}

std::string Memory::Who(uint32_t stamp) const {
  const uint32_t segment = SegmentOf(stamp);
  if (segment < block_) return "another block";
  const int owner = owners_[segment - epoch_];
  if (owner == kSeveral) return "other warps";
  const uint32_t lane = LaneOf(stamp);
  return StrCat("warp ", owner,
                lane < kManyLanes ? StrCat(" lane ", lane) : std::string());
}

bool Memory::Note(Space space, Access access, uint64_t address, uint32_t bytes,
                  int warp, int lane) {
  const Stamps stamps = StampsOf(space, address);
  const uint32_t mine =
      segments_[static_cast<size_t>(warp)] * 64 + static_cast<uint32_t>(lane);
  // Usually, nobody has touched the bytes since the grid began, or the last barrier
  // of the block.
  if (access != Access::kAtomic) {
    // Shared bytes must have been written, so there the lower bound is the block.
    const uint32_t low = (space == Space::kShared ? block_ : 0u) * 64;
    const uint32_t high =
        (space == Space::kShared ? epoch_ : grid_) * 64;  // ordered before
    uint32_t unusual = 0;
    if (access == Access::kRead) {
      for (uint32_t i = 0; i < bytes; ++i) {
        const uint32_t w = stamps.writer[i], r = stamps.reader[i];
        unusual |= static_cast<uint32_t>((w < low || w >= high) && w != mine);
        unusual |= static_cast<uint32_t>(r >= high && r != mine);
      }
      if (unusual == 0) {
        for (uint32_t i = 0; i < bytes; ++i) stamps.reader[i] = mine;
        return true;
      }
    } else {
      for (uint32_t i = 0; i < bytes; ++i) {
        const uint32_t w = stamps.writer[i], r = stamps.reader[i];
        unusual |= static_cast<uint32_t>(w >= high && w != mine);
        unusual |= static_cast<uint32_t>(r >= high && r != mine);
      }
      if (unusual == 0) {
        for (uint32_t i = 0; i < bytes; ++i) stamps.writer[i] = mine;
        return true;
      }
    }
  }
  return NoteSlowly(space, access, address, bytes, warp, lane, stamps);
}

bool Memory::NoteSlowly(Space space, Access access, uint64_t address,
                        uint32_t bytes, int warp, int lane, Stamps stamps) {
  const uint32_t segment = segments_[static_cast<size_t>(warp)];
  const uint32_t mine = segment * 64 + static_cast<uint32_t>(lane);
  const auto where = [&] {
    return StrCat(space == Space::kShared ? "shared" : "global", " byte ",
                  address);
  };
  for (uint32_t i = 0; i < bytes; ++i) {
    uint32_t& writer = stamps.writer[i];
    uint32_t& reader = stamps.reader[i];
    if (writer == kUnderWay) {
      error_ = StrCat(where(), " is being copied and was not waited for");
      return false;
    }
    if (space == Space::kShared && access != Access::kWrite &&
        SegmentOf(writer) < block_) {
      error_ = StrCat(where(), " was never written");
      return false;
    }
    const bool both_atomic =
        access == Access::kAtomic && LaneOf(writer) == kAtomicLane;
    if (!both_atomic && Conflicts(space, writer, mine, warp)) {
      error_ = StrCat("a race: ", where(), " was written by ", Who(writer),
                      " and is ", access == Access::kRead ? "read" : "written",
                      " without a barrier in between");
      return false;
    }
    if (access == Access::kRead) {
      // One reader is kept, or a stamp that stands for several.
      if (!Conflicts(space, reader, mine, warp)) {
        reader = mine;
      } else if (SegmentOf(reader) < block_) {
        reader = grid_ * 64;
      } else if (owners_[SegmentOf(reader) - epoch_] == warp) {
        reader = segment * 64 + kManyLanes;
      } else {
        reader = epoch_ * 64;
      }
      continue;
    }
    if (Conflicts(space, reader, mine, warp)) {
      error_ = StrCat("a race: ", where(), " was read by ", Who(reader),
                      " and is written without a barrier in between");
      return false;
    }
    writer = access == Access::kAtomic ? segment * 64 + kAtomicLane : mine;
  }
  return true;
}

bool Memory::Expect(uint64_t address, int warp, int lane) {
  std::byte* const at =
      Touch(Space::kShared, Access::kWrite, address, 16, warp, lane);
  if (at == nullptr) return false;
  std::memset(at, 0xFF, 16);
  has_copies_ = true;
  std::fill_n(shared_writer_.data() + address, 16, kUnderWay);
  return true;
}

void Memory::Arrive(uint64_t address, const std::byte* bytes, int warp,
                    int lane) {
  std::memcpy(shared_.data() + address, bytes, 16);
  std::fill_n(
      shared_writer_.data() + address, 16,
      segments_[static_cast<size_t>(warp)] * 64 + static_cast<uint32_t>(lane));
}

}  // namespace stowage::testing::ptx
