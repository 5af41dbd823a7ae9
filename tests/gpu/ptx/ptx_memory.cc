#include "tests/gpu/ptx/ptx_memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/strings.h"

namespace stowage::testing::ptx {
namespace {

constexpr uint64_t kPageBytes = 4096;

// The last stamps.
constexpr uint32_t kUnderWay = 0xFFFFFFFF;  // an asynchronous copy
constexpr uint32_t kMbarrier = 0xFFFFFFFE;  // no data
constexpr uint32_t kMbarrierBytes = 8;

std::string NameOfByte(Space space, uint64_t address) {
  return StrCat(space == Space::kShared ? "shared" : "global", " byte ",
                address);
}

}  // namespace

struct Memory::Page {
  uint32_t writer[kPageBytes] = {};
  uint32_t reader[kPageBytes] = {};
};

Memory::Memory() = default;
Memory::~Memory() = default;

void Memory::ForgetAll() {
  for (const auto& page : pages_) *page = Page{};
  std::ranges::fill(shared_writer_, 0u);
  std::ranges::fill(shared_reader_, 0u);
  order_.StartAnew();
}

void Memory::BeginGrid(std::span<const std::span<std::byte>> allocations) {
  if (order_.IsWornOut()) ForgetAll();
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
  // Stamps of earlier grids are below this one's: pages are used again as they are.
  pages_used_ = 0;
  order_.BeginGrid();
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
  // What copies and mbarriers of the block before had is free again.
  if (has_copies_) {
    std::ranges::replace_if(
        shared_writer_,
        [](uint32_t writer) {
          return Order::SegmentOf(writer) >= Order::kFirstSet;
        },
        0u);
    has_copies_ = false;
  }
  order_.BeginBlock(warps);
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

bool Memory::Note(Space space, Access access, uint64_t address, uint32_t bytes,
                  int warp, int lane) {
  const Stamps stamps = StampsOf(space, address);
  const uint32_t mine = order_.Stamp(warp, static_cast<uint32_t>(lane));
  // Usually, nobody has touched the bytes since the grid began, or the last barrier
  // of the block.
  if (access != Access::kAtomic) {
    // Shared bytes must have been written, so there the lower bound is the block.
    const uint32_t low = (space == Space::kShared ? order_.block() : 0u) * 64;
    const uint32_t high =
        (space == Space::kShared ? order_.epoch() : order_.grid()) *
        64;  // ordered before
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
  const auto mine_lane = static_cast<uint32_t>(lane);
  const auto where = [&] { return NameOfByte(space, address); };
  uint32_t read_before = 0;
  for (uint32_t i = 0; i < bytes; ++i) {
    uint32_t& writer = stamps.writer[i];
    uint32_t& reader = stamps.reader[i];
    if (access == Access::kRead && i > 0 && writer == stamps.writer[i - 1] &&
        reader == read_before) {
      reader = stamps.reader[i - 1];  // as the byte before
      continue;
    }
    if (writer >= kMbarrier) {
      error_ = StrCat(where(), writer == kMbarrier
                                   ? " is part of an mbarrier, and no data"
                                   : " is being copied and was not waited for");
      return false;
    }
    if (space == Space::kShared && access != Access::kWrite &&
        Order::SegmentOf(writer) < order_.block()) {
      error_ = StrCat(where(), " was never written");
      return false;
    }
    const bool both_atomic = access == Access::kAtomic &&
                             Order::LaneOf(writer) == Order::kAtomicLane;
    if (!both_atomic && order_.Conflicts(space, writer, warp, mine_lane)) {
      const char* const is = access == Access::kRead ? "read" : "written";
      error_ = order_.IsOfCopies(writer)
                   ? StrCat("a race: ", where(),
                            " is written by a bulk copy and is ", is,
                            " by warp ", warp, " lane ", lane,
                            ", which has not waited for its mbarrier")
                   : StrCat("a race: ", where(), " was written by ",
                            order_.Who(writer, warp, mine_lane), " and is ", is,
                            " without a barrier in between");
      return false;
    }
    if (access == Access::kRead) {
      read_before = reader;
      reader = order_.Join(space, reader, warp, mine_lane);
      continue;
    }
    if (order_.Conflicts(space, reader, warp, mine_lane)) {
      error_ = StrCat("a race: ", where(), " was read by ",
                      order_.Who(reader, warp, mine_lane),
                      " and is written without a barrier in between");
      return false;
    }
    // What comes after a write comes after those who read before it.
    if (access == Access::kWrite) reader = 0;
    writer = order_.Stamp(
        warp, access == Access::kAtomic ? Order::kAtomicLane : mine_lane);
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
  std::fill_n(shared_writer_.data() + address, 16,
              order_.Stamp(warp, static_cast<uint32_t>(lane)));
}

// Why a product of the warps may not read a byte that was written so, or nothing.
std::string Memory::CannotReach(const std::string& byte, uint32_t writer,
                                int first_warp) const {
  if (writer == kUnderWay) {
    return byte + " is being copied and was not waited for";
  }
  if (Order::SegmentOf(writer) < order_.block()) {
    return byte + " was never written";
  }
  if (writer == kMbarrier) return byte + " is part of an mbarrier, and no data";
  const std::string product = StrCat("a product of warps ", first_warp, " to ",
                                     first_warp + kWarpgroupWarps - 1);
  for (int warp = first_warp; warp < first_warp + kWarpgroupWarps; ++warp) {
    const auto who = [&] {
      return order_.Who(writer, warp, Order::kManyLanes);
    };
    if (order_.Conflicts(Space::kShared, writer, warp, Order::kManyLanes)) {
      if (order_.IsOfCopies(writer)) {
        return StrCat("a race: ", byte,
                      " is written by a bulk copy and is read by ", product,
                      "; not all lanes of warp ", warp,
                      " have waited for its mbarrier");
      }
      return StrCat("a race: ", byte, " was written by ", who(),
                    " and is read by ", product,
                    " without a barrier in between that warp ", warp,
                    " took part in");
    }
    if (!order_.IsOfCopies(writer) &&
        !order_.IsFenced(writer, warp, Order::kManyLanes, kFencesShared)) {
      return StrCat(byte, " was written by ", order_.NameOf(writer),
                    " and is read by ", product,
                    " without a fence.proxy.async of that lane between the "
                    "write and the barrier");
    }
  }
  return {};
}

const std::byte* Memory::ReadForProduct(uint64_t address, int first_warp,
                                        uint32_t reads) {
  const std::byte* const from = Locate(Space::kShared, address, 16);
  if (from == nullptr) return nullptr;
  const Stamps stamps = StampsOf(Space::kShared, address);
  for (uint64_t i = 0; i < 16; ++i) {
    if (i == 0 || stamps.writer[i] != stamps.writer[i - 1]) {
      error_ = CannotReach(StrCat("shared byte ", address + i),
                           stamps.writer[i], first_warp);
      if (!error_.empty()) return nullptr;
    }
    stamps.reader[i] = order_.JoinReads(stamps.reader[i], reads);
  }
  return from;
}

// Why a bulk copy that the lane issues may not write a shared byte, or nothing.
std::string Memory::CannotOverwrite(uint64_t address, int warp, int lane) {
  const uint32_t writer = shared_writer_[address];
  const uint32_t reader = shared_reader_[address];
  const auto mine = static_cast<uint32_t>(lane);
  const std::string copy =
      StrCat(" by a bulk copy of warp ", warp, " lane ", lane);
  const std::string byte = NameOfByte(Space::kShared, address);
  if (writer == kMbarrier) {
    return StrCat(byte, " is part of an mbarrier, and written", copy);
  }
  if (writer == kUnderWay) {
    return StrCat(byte, " is being copied, and written", copy);
  }
  const bool is_of_copies = order_.IsOfCopies(writer);
  if (order_.Conflicts(Space::kShared, writer, warp, mine)) {
    return StrCat("a race: ", byte, " is written", copy, " and was written by ",
                  is_of_copies ? "another, for which that lane has not waited"
                               : order_.Who(writer, warp, mine) +
                                     " without a barrier in between");
  }
  if (order_.Conflicts(Space::kShared, reader, warp, mine)) {
    return StrCat("a race: ", byte, " is written", copy, " and was read by ",
                  order_.Who(reader, warp, mine),
                  " without a barrier in between");
  }
  const auto unfenced = [&](const char* was, uint32_t who) {
    return StrCat(byte, " is written", copy, " and was ", was, " by ",
                  order_.NameOf(who),
                  " without a fence.proxy.async of that lane in between");
  };
  if (!is_of_copies && Order::SegmentOf(writer) >= order_.block() &&
      !order_.IsFenced(writer, warp, mine, kFencesShared)) {
    return unfenced("written", writer);
  }
  const uint32_t who = order_.UnfencedReader(reader, warp, mine);
  return who == 0 ? std::string() : unfenced("read", who);
}

bool Memory::ExpectCopy(uint64_t address, uint32_t bytes, uint32_t stamp,
                        int warp, int lane) {
  if (address > shared_bytes_ || shared_bytes_ - address < bytes) {
    error_ = StrCat("a copy of ", bytes, " bytes to ", address, " of ",
                    shared_bytes_, " bytes of shared memory");
    return false;
  }
  uint32_t writer = 0, reader = 0;  // of the byte before
  for (uint64_t at = address; at < address + bytes; ++at) {
    if (at == address || writer != shared_writer_[at] ||
        reader != shared_reader_[at]) {
      error_ = CannotOverwrite(at, warp, lane);
      if (!error_.empty()) return false;
    }
    writer = std::exchange(shared_writer_[at], stamp);
    reader = std::exchange(shared_reader_[at], 0u);
  }
  has_copies_ = true;
  return true;
}

const std::byte* Memory::ReadForCopy(uint64_t address, uint32_t bytes, int warp,
                                     int lane) {
  const std::byte* const from =
      Touch(Space::kGlobal, Access::kRead, address, bytes, warp, lane);
  if (from == nullptr) return nullptr;
  const Stamps stamps = StampsOf(Space::kGlobal, address);
  for (uint32_t i = 0; i < bytes; ++i) {
    if (Order::SegmentOf(stamps.writer[i]) < order_.grid()) continue;
    if (order_.IsFenced(stamps.writer[i], warp, static_cast<uint32_t>(lane),
                        kFencesGlobal)) {
      continue;
    }
    error_ = StrCat(NameOfByte(Space::kGlobal, address + i),
                    " is read by a bulk copy and was written by ",
                    order_.NameOf(stamps.writer[i]),
                    " without a fence.proxy.async of that lane in between");
    return nullptr;
  }
  return from;
}

bool Memory::TakeForMbarrier(uint64_t address, int warp, int lane) {
  if (Touch(Space::kShared, Access::kWrite, address, kMbarrierBytes, warp,
            lane) == nullptr) {
    return false;
  }
  std::fill_n(shared_writer_.data() + address, kMbarrierBytes, kMbarrier);
  has_copies_ = true;
  return true;
}

void Memory::GiveBack(uint64_t address, int warp, int lane) {
  std::fill_n(shared_writer_.data() + address, kMbarrierBytes, 0u);
  std::fill_n(shared_reader_.data() + address, kMbarrierBytes,
              order_.Stamp(warp, static_cast<uint32_t>(lane)));
}

}  // namespace stowage::testing::ptx
