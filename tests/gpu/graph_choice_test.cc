#include "gpu/graph_choice.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "gpu/queue.h"
#include "ir/dtype.h"
#include "tests/gpu/grid_queue.h"

namespace stowage::gpu {
namespace {

using testing::GridQueue;

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
