#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "gpu/queue.h"
#include "gpu/step_kernels.h"
#include "ir/tensor_type.h"
#include "tests/gpu/grid_runner.h"

namespace stowage::gpu {
namespace {

using testing::GridQueue;

constexpr uint64_t kSeeds[] = {0, 1, 2};

TEST_CASE("a step begins with the inputs of its slot, and no fault") {
  for (const uint64_t seed : kSeeds) {
    for (const Bytes bytes : {Bytes{16}, Bytes{4112}}) {
      const Bytes slot_bytes = AlignUp(bytes, 256);
      alignas(16) static std::byte slots[2 * 4352], planned[4352 + 16];
      for (size_t i = 0; i < sizeof(slots); ++i) {
        slots[i] = static_cast<std::byte>(i * 7 + i / 4352);
      }
      for (const uint64_t step : {6, 7}) {
        StepRecord record{.step = step, .fault = 3};
        std::memset(planned, 0, sizeof(planned));
        GridQueue queue({.seed = seed});
        EnqueueBeginStep(&record, slots, slot_bytes, planned, bytes, queue);
        const std::byte* const from = slots + (step == 7 ? slot_bytes : 0);
        CHECK(std::memcmp(planned, from, static_cast<size_t>(bytes)) == 0);
        CHECK(planned[bytes] == std::byte{0});  // not one byte more
        CHECK(record.step == step);
        CHECK(record.fault == kNoFault);
      }
    }
  }
}

TEST_CASE("a program without inputs begins all the same") {
  StepRecord record{.step = 1, .fault = 3};
  GridQueue queue;
  EnqueueBeginStep(&record, nullptr, 0, nullptr, 0, queue);
  CHECK(record.fault == kNoFault);
}

TEST_CASE("a branch tells the host which body an index stands for") {
  struct Index {
    DType dtype;
    int64_t value;
    uint32_t body;  // of three; 3: none, which is a fault
  };
  const Index indices[] = {
      {DType::kI32, 0, 0},  {DType::kI32, 2, 2},
      {DType::kI32, 3, 3},  {DType::kI32, -1, 3},
      {DType::kI64, 1, 1},  {DType::kI64, int64_t{1} << 32, 3},
      {DType::kI64, -1, 3}, {DType::kBool, 0, 0},
      {DType::kBool, 1, 1}, {DType::kBool, 255, 1}};
  for (const Index& index : indices) {
    CAPTURE(index.value);
    alignas(8) std::byte bytes[8];
    std::memset(bytes, 0x5A, sizeof(bytes));
    std::memcpy(bytes, &index.value, static_cast<size_t>(SizeOf(index.dtype)));
    uint32_t chosen[2] = {77, 77};
    GridQueue queue;
    queue.set_launch(6);
    EnqueueChoice(index.dtype, bytes, 3, chosen, queue);
    CHECK(chosen[0] == index.body);
    CHECK(chosen[1] == 77);
    CHECK(queue.faulty_launch() == (index.body == 3 ? 6 : kNoFault));
  }
}

TEST_CASE("a step ends in its place of the ring, and the next is counted") {
  for (const uint64_t seed : kSeeds) {
    // More than one grid takes; one of them alone.
    for (const size_t count :
         {size_t{0}, size_t{1}, size_t{128}, size_t{300}}) {
      std::vector<float> values(count);
      std::vector<const float*> scalars;
      for (size_t i = 0; i < count; ++i) {
        values[i] = std::sqrt(static_cast<float>(i));
        scalars.push_back(&values[i]);
      }
      const auto stride = static_cast<size_t>(RingStride(count));
      CHECK(stride >= sizeof(RingEntry) + 4 * count);
      alignas(64) static std::byte ring[4 * 2048];
      REQUIRE(4 * stride <= sizeof(ring));
      std::memset(ring, 0, sizeof(ring));
      StepRecord record{.step = 5, .fault = 9};
      GridQueue queue({.seed = seed});
      EnqueueEndStep(&record, ring, 4, scalars, queue);
      CHECK(record.step == 6);
      RingEntry entry;
      std::memcpy(&entry, ring + stride, sizeof(entry));
      CHECK(entry.step == 5);
      CHECK(entry.fault == 9);
      const auto published =
          std::span(ring + stride + sizeof(entry), 4 * count);
      CHECK(std::ranges::equal(published, std::as_bytes(std::span(values))));
      for (const size_t other : {size_t{0}, size_t{2}, size_t{3}}) {
        std::memcpy(&entry, ring + other * stride, sizeof(entry));
        CHECK(entry.step == 0);
      }
    }
  }
}

TEST_CASE("NaN and infinity are found wherever they are, large numbers not") {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const int64_t n : {1, 257, 300'000}) {
    std::vector<float> x(static_cast<size_t>(n),
                         std::numeric_limits<float>::max());
    const auto found = [&] {
      uint32_t word = 0;
      GridQueue queue;
      EnqueueFindNonFinite(DType::kF32,
                           reinterpret_cast<const std::byte*>(x.data()), n,
                           &word, queue);
      return word;
    };
    CHECK(found() == 0);
    for (const size_t at : {size_t{0}, x.size() / 2, x.size() - 1}) {
      for (const float bad : {inf, -inf, nan}) {
        const float was = x[at];
        x[at] = bad;
        CHECK(found() == 1);
        x[at] = was;
      }
    }
  }
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    std::vector<uint16_t> x(100, 0x7BFF);  // finite in both
    uint32_t word = 0;
    GridQueue queue;
    const auto* const bytes = reinterpret_cast<const std::byte*>(x.data());
    EnqueueFindNonFinite(dtype, bytes, 100, &word, queue);
    CHECK(word == 0);
    x[77] = dtype == DType::kBF16 ? 0x7F80 : 0x7C00;  // infinity
    EnqueueFindNonFinite(dtype, bytes, 100, &word, queue);
    CHECK(word == 1);
  }
}

constexpr uint32_t kUnset = 77;

// The choice that is set is in the middle of these.
struct Choices {
  uint32_t all[3] = {kUnset, kUnset, kUnset};

  GraphChoice choice() { return {reinterpret_cast<uint64_t>(&all[1])}; }
  std::span<std::byte> choice_bytes() {
    return std::as_writable_bytes(std::span(&all[1], 1));
  }
};

TEST_CASE("a graph's choice is what the index says, or none") {
  struct Index {
    DType dtype;
    int64_t bits;
    uint32_t body;
  };
  const Index indices[] = {
      {DType::kI64, 0, 0},
      {DType::kI64, 2, 2},
      {DType::kI64, 3, 3},
      {DType::kI64, -1, 3},
      {DType::kI64, int64_t{1} << 32, 3},
      {DType::kI32, 1, 1},
      {DType::kI32, int64_t{0xFFFFFFFF}, 3},
      // Of the 32 bits that are read, the rest being something else.
      {DType::kI32, (int64_t{1} << 40) + 2, 2},
      {DType::kBool, 0, 0},
      {DType::kBool, 1, 1},
      {DType::kBool, 256, 0}};
  for (const Index& index : indices) {
    INFO(DTypeName(index.dtype), " ", index.bits);
    int64_t bits = index.bits;  // little-endian
    Choices choices;
    GridQueue queue;
    queue.set_memory(
        {std::as_writable_bytes(std::span(&bits, 1)), choices.choice_bytes()});
    queue.set_launch(6);
    EnqueueGraphChoice(index.dtype, reinterpret_cast<std::byte*>(&bits), 3,
                       choices.choice(), queue);
    CHECK(choices.all[0] == kUnset);
    CHECK(choices.all[1] == index.body);
    CHECK(choices.all[2] == kUnset);
    CHECK(queue.faulty_launch() == (index.body == 3 ? 6 : kNoFault));
  }
}

TEST_CASE("of several bad indices the first launch's is kept") {
  int32_t bad = 9;
  Choices choices;
  GridQueue queue;
  for (const uint32_t launch : {8u, 4u, 6u}) {
    queue.set_launch(launch);
    EnqueueGraphChoice(DType::kI32, reinterpret_cast<std::byte*>(&bad), 2,
                       choices.choice(), queue);
    CHECK(choices.all[1] == 2);
  }
  CHECK(queue.faulty_launch() == 4);
}

TEST_CASE("what a fault forbids is chosen as long as there is none") {
  Choices choices;
  GridQueue queue;
  EnqueueSoundChoice(choices.choice(), queue);
  CHECK(choices.all[1] == 0);
  int32_t bad = -1;
  Choices other;
  queue.set_launch(0);
  EnqueueGraphChoice(DType::kI32, reinterpret_cast<std::byte*>(&bad), 2,
                     other.choice(), queue);
  EnqueueSoundChoice(choices.choice(), queue);
  CHECK(choices.all[0] == kUnset);
  CHECK(choices.all[1] == 1);  // of one body, none
  CHECK(choices.all[2] == kUnset);
  CHECK(queue.faulty_launch() == 0);
}

}  // namespace
}  // namespace stowage::gpu
