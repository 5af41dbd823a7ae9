#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/strings.h"
#include "gpu/emulator/context.h"
#include "gpu/emulator/warpgroup.h"

namespace stowage::gpu::emulator {
namespace {

constexpr uint64_t kMark = 0x7265697272616220;  // what a barrier looks like
constexpr size_t kRank = 4;
constexpr int64_t kChunk = 16;  // bytes
constexpr int64_t kBytesEnd = int64_t{1} << 20;
constexpr int64_t kNotSaid = -1;

struct Box {
  TensorMapSpec map;
  std::array<int, kRank> start;
  int64_t to;  // byte of dynamic memory

  int64_t row_bytes() const { return int64_t{map.box[0]} * map.element_bytes; }
  int64_t rows() const { return int64_t{map.box[1]} * map.box[2] * map.box[3]; }
  int64_t bytes() const { return rows() * row_bytes(); }
};

struct Barrier {
  const uint64_t* at = nullptr;
  int maker = 0;
  uint64_t made = 0;            // SyncThreads before that
  bool fenced = false;          // copies see it
  uint64_t phases = 0;          // that have ended
  int64_t expected = kNotSaid;  // bytes of this one
  int64_t started = 0;
  std::vector<Box> under_way = {};
  std::vector<int> waiting = {};
  std::vector<uint64_t> seen = {};  // by thread: the phases that it knows of
  /// For each phase that a thread has waited for: the SyncThreads passed before.
  std::vector<uint64_t> awaited = {};
  /// By thread: 1 + the SyncThreads passed at its last wait; 0: it has not waited.
  std::vector<uint64_t> waited = {};
  int opener = 0;       // who has expected bytes last
  uint64_t opened = 0;  // how many SyncThreads had passed then
};

// The last copy that wrote 16 bytes.
struct Written {
  size_t barrier = 0;  // its number and 1; 0: no copy has
  uint64_t phase = 0;
};

// The state of the block with this serial.
struct BlockState {
  uint64_t serial = 0;
  std::deque<Barrier> barriers;
  std::vector<Written> chunks;  // of dynamic memory
};

BlockState& Block() {
  static thread_local BlockState block;
  if (block.serial != context.serial) {
    block.serial = context.serial;
    block.barriers.clear();
    block.chunks.clear();
  }
  return block;
}

int64_t ByteOf(const void* shared) {
  return static_cast<const std::byte*>(shared) - DynamicBytes().data();
}

Barrier* FindAt(const uint64_t* at) {
  for (Barrier& barrier : Block().barriers) {
    if (barrier.at == at) return &barrier;
  }
  return nullptr;
}

// One that this thread may use.
Barrier& Use(const char* word, const uint64_t* at) {
  Barrier* const barrier = FindAt(at);
  if (barrier == nullptr) {
    Report(word, " of a barrier that was not initialized");
  }
  if (barrier->maker != context.thread && barrier->made == SyncsPassed()) {
    Report(word, " of a barrier that thread ", barrier->maker,
           " has initialized without a SyncThreads since");
  }
  if (*at != kMark) {
    Report(word, ": the barrier at byte ", ByteOf(at), " was written over");
  }
  return *barrier;
}

// A waiting thread knows the phase by its parity only: one that waits after the next phase has
// begun may miss that one, too, and wait forever.
void ReportLate(const Barrier& barrier, int waits, int expects) {
  Report("thread ", waits, " waits for phase ", barrier.phases - 1,
         " of the barrier at byte ", ByteOf(barrier.at), ", and thread ",
         expects,
         " expects bytes of the next one without a SyncThreads in between");
}

// --- Copies ---

// The place of byte `i` of a box: the address bits that number 16-byte chunks, as many as a
// row has, are xored with those that number lines of 128 bytes.
int64_t PlaceOf(const Box& box, int64_t i) {
  const int64_t byte = box.to + i;
  if (box.map.swizzle == 0) return byte;
  const int64_t chunks = box.map.swizzle / kChunk;
  return byte ^ (byte / 128 % chunks * kChunk);
}

// Calls fn(place, row, byte) for each 16 bytes of a box, with their row and the byte in it.
template <typename Fn>
void ForEachChunk(const Box& box, Fn&& fn) {
  for (int64_t row = 0; row < box.rows(); ++row) {
    for (int64_t byte = 0; byte < box.row_bytes(); byte += kChunk) {
      fn(PlaceOf(box, row * box.row_bytes() + byte), row, byte);
    }
  }
}

// Column 0 of that row of the array which row `row` of the box is a part of; null: the
// array has none there.
const std::byte* RowOf(const Box& box, int64_t row) {
  const auto* from = static_cast<const std::byte*>(box.map.data);
  for (size_t i = 1; i < kRank; ++i) {
    const int64_t at = box.start[i] + row % box.map.box[i];
    row /= box.map.box[i];
    if (at < 0 || at >= box.map.sizes[i]) return nullptr;
    from += at * box.map.steps[i];
  }
  return from;
}

void Arrive(const Box& box) {
  std::byte* const shared = DynamicBytes().data();
  const int64_t size = box.map.element_bytes;
  ForEachChunk(box, [&](int64_t place, int64_t row, int64_t byte) {
    std::memset(shared + place, 0, kChunk);
    const std::byte* const from = RowOf(box, row);
    if (from == nullptr) return;
    for (int64_t i = 0; i < kChunk; i += size) {
      const int64_t column = box.start[0] + (byte + i) / size;
      if (column < 0 || column >= box.map.sizes[0]) continue;
      std::memcpy(shared + place + i, from + column * size,
                  static_cast<size_t>(size));
    }
  });
}

void CheckPlace(const Box& box) {
  if (box.map.rank != static_cast<int>(kRank)) {
    Report("CopyBox of an array of rank ", box.map.rank, "; expected ", kRank);
  }
  // A pattern of chunks that are exchanged is 8 rows of them.
  const int64_t multiple = std::max(128, 8 * box.map.swizzle);
  const auto size = static_cast<int64_t>(DynamicBytes().size());
  if (box.to < 0 || box.to + box.bytes() > size) {
    Report("CopyBox of ", box.bytes(), " bytes to byte ", box.to, " of the ",
           size, " that the launch asked for");
  }
  if (box.to % multiple != 0) {
    Report("CopyBox to byte ", box.to,
           " of shared memory; expected a multiple of ", multiple);
  }
}

// Notes the copy where it will write.
void Claim(const Box& box, const Barrier& barrier) {
  BlockState& block = Block();
  block.chunks.resize(DynamicBytes().size() / kChunk);
  size_t number = 0;
  while (&block.barriers[number] != &barrier) ++number;
  ForEachChunk(box, [&](int64_t place, int64_t, int64_t) {
    const auto byte = static_cast<size_t>(place);
    Written& written = block.chunks[byte / kChunk];
    if (written.barrier != 0 &&
        written.phase >= block.barriers[written.barrier - 1].phases) {
      Report("CopyBox to byte ", byte,
             " of shared memory, which another copy under way writes");
    }
    if (!IsFenced(byte)) {
      Report("CopyBox to byte ", byte,
             " of shared memory, which a thread has written without a "
             "ProxyFence since");
    }
    written = {number + 1, barrier.phases};
  });
}

// --- Phases ---

void CheckCount(const Barrier& barrier) {
  if (barrier.expected != kNotSaid && barrier.started > barrier.expected) {
    Report("the barrier at byte ", ByteOf(barrier.at), " is to expect ",
           barrier.expected, " bytes in a phase whose copies bring ",
           barrier.started);
  }
}

bool MayEnd(const Barrier& barrier) {
  return barrier.started == barrier.expected;
}

void End(Barrier& barrier) {
  for (const Box& box : barrier.under_way) {
    if (DefersCopies()) Arrive(box);
  }
  barrier.under_way.clear();
  barrier.expected = kNotSaid;
  barrier.started = 0;
  ++barrier.phases;
  for (const int thread : barrier.waiting) Wake(thread);
  barrier.waiting.clear();
}

void EndForThoseWhoWait(Barrier& barrier) {
  if (!barrier.waiting.empty() && MayEnd(barrier)) End(barrier);
}

}  // namespace

// --- What the words call ---

void InitBarrier(uint64_t* barrier) {
  const int64_t byte = ByteOf(barrier);
  if (byte < 0 || byte % 8 != 0 ||
      byte + 8 > static_cast<int64_t>(DynamicBytes().size())) {
    Report("InitBarrier of byte ", byte, " of the ", DynamicBytes().size(),
           " that the launch asked for; expected a multiple of 8");
  }
  if (FindAt(barrier) != nullptr) {
    Report("InitBarrier of a barrier that was initialized before");
  }
  *barrier = kMark;
  Block().barriers.push_back(
      {.at = barrier, .maker = context.thread, .made = SyncsPassed()});
  const auto threads = static_cast<size_t>(context.block_size);
  Block().barriers.back().seen.resize(threads);
  Block().barriers.back().waited.resize(threads);
}

void FenceBarriers() {
  for (Barrier& barrier : Block().barriers) {
    if (barrier.maker == context.thread) barrier.fenced = true;
  }
}

void ExpectBytes(uint64_t* at, int bytes) {
  Barrier& barrier = Use("ExpectBytes", at);
  if (barrier.expected != kNotSaid) {
    Report("ExpectBytes twice in a phase of the barrier at byte ", ByteOf(at));
  }
  if (bytes < 0 || bytes >= kBytesEnd) {
    Report("ExpectBytes of ", bytes, "; expected fewer than ", kBytesEnd);
  }
  const uint64_t now = SyncsPassed();
  for (int thread = 0; thread < context.block_size; ++thread) {
    if (barrier.phases > 0 && thread != context.thread &&
        barrier.waited[static_cast<size_t>(thread)] == now + 1) {
      ReportLate(barrier, thread, context.thread);
    }
  }
  barrier.opener = context.thread;
  barrier.opened = now;
  barrier.expected = bytes;
  CheckCount(barrier);
  EndForThoseWhoWait(barrier);
}

void CopyBox(void* shared, const TensorMap& map, std::span<const int, 4> start,
             uint64_t* at) {
  const std::optional<TensorMapSpec> spec = DecodeTensorMap(map);
  if (!spec.has_value()) Report("CopyBox of what is no tensor map");
  Box box{.map = *spec, .start = {}, .to = ByteOf(shared)};
  std::ranges::copy(start, box.start.begin());
  CheckPlace(box);
  Barrier& barrier = Use("CopyBox", at);
  if (!barrier.fenced) {
    Report(
        "CopyBox with a barrier that was initialized without a ProxyFence "
        "since");
  }
  Claim(box, barrier);
  barrier.started += box.bytes();
  CheckCount(barrier);
  if (DefersCopies()) {
    ForEachChunk(box, [](int64_t place, int64_t, int64_t) {
      std::memset(DynamicBytes().data() + place, 0xFF, kChunk);
    });
  } else {
    Arrive(box);
  }
  barrier.under_way.push_back(box);
  EndForThoseWhoWait(barrier);
}

void AwaitBytes(uint64_t* at, int parity, const Site& site) {
  Barrier& barrier = Use("AwaitBytes", at);
  if (parity != 0 && parity != 1) {
    Report("AwaitBytes of a phase ", parity, "; expected 0 or 1");
  }
  while (barrier.phases % 2 == static_cast<uint64_t>(parity)) {
    if (MayEnd(barrier)) {
      End(barrier);
    } else {
      barrier.waiting.push_back(context.thread);
      Sleep(site);
    }
  }
  if (barrier.phases > 0 && barrier.expected != kNotSaid &&
      barrier.opener != context.thread && barrier.opened == SyncsPassed()) {
    ReportLate(barrier, context.thread, barrier.opener);
  }
  barrier.waited[static_cast<size_t>(context.thread)] = SyncsPassed() + 1;
  barrier.seen[static_cast<size_t>(context.thread)] = barrier.phases;
  while (barrier.awaited.size() < barrier.phases) {
    barrier.awaited.push_back(SyncsPassed());
  }
}

// --- What the emulator asks ---

bool HasArrived(size_t byte, int first, int count) {
  const BlockState& block = Block();
  if (byte / kChunk >= block.chunks.size()) return true;
  const Written& written = block.chunks[byte / kChunk];
  if (written.barrier == 0) return true;
  const Barrier& barrier = block.barriers[written.barrier - 1];
  if (written.phase < barrier.awaited.size() &&
      barrier.awaited[written.phase] < SyncsPassed()) {
    return true;
  }
  const auto from = barrier.seen.begin() + first;
  return std::all_of(from, from + count, [&written](uint64_t seen) {
    return seen > written.phase;
  });
}

std::string WhatBarriersLack() {
  std::string text;
  for (const Barrier& barrier : Block().barriers) {
    if (barrier.waiting.empty()) continue;
    text += StrCat("; the barrier at byte ", ByteOf(barrier.at), " has ended ",
                   barrier.phases, " phases, and of the next one ");
    if (barrier.expected == kNotSaid) {
      text += "no bytes are expected";
    } else {
      text += StrCat(barrier.started, " of ", barrier.expected,
                     " bytes are under way");
    }
  }
  return text;
}

std::string WhatCopiesLeave() {
  for (const Barrier& barrier : Block().barriers) {
    if (barrier.under_way.empty()) continue;
    return StrCat("it ends while copies of ", barrier.started,
                  " bytes are under way, for which the barrier at byte ",
                  ByteOf(barrier.at), " was not awaited");
  }
  return "";
}

namespace {

constexpr uint64_t kMapMark = 0x70616D726F736E74;

bool IsTaken(const TensorMapSpec& spec) {
  constexpr int64_t kMaxSize = int64_t{1} << 32;
  constexpr int64_t kStepEnd = int64_t{1} << 40;
  constexpr int kMaxSide = 256;
  const bool known_swizzle = spec.swizzle == 0 || spec.swizzle == 32 ||
                             spec.swizzle == 64 || spec.swizzle == 128;
  if (reinterpret_cast<uintptr_t>(spec.data) % 16 != 0 ||
      spec.data == nullptr || spec.element_bytes != 2 || spec.rank < 1 ||
      spec.rank > static_cast<int>(kMaxTensorMapDims) || !known_swizzle) {
    return false;
  }
  for (size_t i = 0; i < kMaxTensorMapDims; ++i) {
    if (i >= static_cast<size_t>(spec.rank)) {
      if (spec.sizes[i] != 0 || spec.steps[i] != 0 || spec.box[i] != 0)
        return false;
      continue;
    }
    const bool good_step = i == 0 ? spec.steps[0] == spec.element_bytes
                                  : spec.steps[i] >= 0 &&
                                        spec.steps[i] % 16 == 0 &&
                                        spec.steps[i] < kStepEnd;
    if (spec.sizes[i] < 1 || spec.sizes[i] > kMaxSize || !good_step ||
        spec.box[i] < 1 || spec.box[i] > kMaxSide) {
      return false;
    }
  }
  const int row = spec.box[0] * spec.element_bytes;
  return row % 16 == 0 && (spec.swizzle == 0 || row <= spec.swizzle);
}

}  // namespace

std::optional<TensorMap> EncodeTensorMap(const TensorMapSpec& spec) {
  if (!IsTaken(spec)) return std::nullopt;
  TensorMap map;
  map.words[0] = kMapMark;
  map.words[1] = reinterpret_cast<uintptr_t>(spec.data);
  map.words[2] = static_cast<uint64_t>(spec.element_bytes) |
                 static_cast<uint64_t>(spec.rank) << 8 |
                 static_cast<uint64_t>(spec.swizzle) << 16;
  for (size_t i = 0; i < kMaxTensorMapDims; ++i) {
    map.words[3 + i] = static_cast<uint64_t>(spec.sizes[i]);
    // A side of 256 does not fit 8 bits; a step takes 40.
    map.words[8 + i] = static_cast<uint64_t>(spec.steps[i]) |
                       static_cast<uint64_t>(spec.box[i]) << 48;
  }
  return map;
}

std::optional<TensorMapSpec> DecodeTensorMap(const TensorMap& map) {
  if (map.words[0] != kMapMark) return std::nullopt;
  TensorMapSpec spec;
  spec.data = reinterpret_cast<const void*>(map.words[1]);
  spec.element_bytes = static_cast<int>(map.words[2] & 0xFF);
  spec.rank = static_cast<int>(map.words[2] >> 8 & 0xFF);
  spec.swizzle = static_cast<int>(map.words[2] >> 16);
  for (size_t i = 0; i < kMaxTensorMapDims; ++i) {
    spec.sizes[i] = static_cast<int64_t>(map.words[3 + i]);
    spec.steps[i] =
        static_cast<int64_t>(map.words[8 + i] & ((uint64_t{1} << 48) - 1));
    spec.box[i] = static_cast<int>(map.words[8 + i] >> 48);
  }
  if (!IsTaken(spec)) return std::nullopt;
  return spec;
}

}  // namespace stowage::gpu::emulator
