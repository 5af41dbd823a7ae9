#include "gpu/enqueue.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "ir/attrs.h"
#include "ir/op_kind.h"
#include "runtime/kernel.h"
#include "tests/gpu/fake_device.h"

namespace stowage::gpu {
namespace {

// A device, and launches of sgd_update over four floats each in its arena.
class Updates {
 public:
  Updates() {
    attrs_.Set("decay", 0.0);
    stream_ = *device_.CreateStream();
    arena_ = *device_.Allocate(4096);
    auto* const floats = reinterpret_cast<float*>(arena_);
    for (int i = 0; i < 64; ++i) floats[i] = static_cast<float>(i);
    floats[64] = 0.5f;  // lr
  }
  ~Updates() {
    device_.Free(arena_);
    device_.Destroy(stream_);
  }

  // w -= lr g, with w and g at these floats of the arena.
  void Add(size_t w, size_t g) {
    operands_.push_back(
        {View(w, {4}), View(g, {4}), View(64, {}), View(w, {4})});
  }

  /// How many grids all launches took.
  int64_t Enqueue() {
    std::vector<Launch> launches;
    for (const auto& operands : operands_) {
      Launch launch;
      launch.op = OpKind::kSgdUpdate;
      launch.attrs = &attrs_;
      launch.inputs = std::span(operands).first(3);
      launch.outputs = std::span(operands).last(1);
      launches.push_back(launch);
    }
    uint32_t fault = kNoFault;
    for (const auto mode :
         {DeviceQueue::Mode::kPrepare, DeviceQueue::Mode::kRun}) {
      DeviceQueue queue(device_, stream_, &fault, mode);
      EnqueueLaunches(launches, queue);
    }
    return static_cast<int64_t>(device_.executed().size());
  }

  float At(size_t i) const { return reinterpret_cast<float*>(arena_)[i]; }

 private:
  TensorView View(size_t at, const Shape& shape) const {
    TensorView view{arena_ + 4 * at, {DType::kF32, shape}, {}};
    view.strides = ContiguousStrides(shape);
    return view;
  }

  testing::FakeDevice device_{{}};
  Stream stream_;
  std::byte* arena_ = nullptr;
  Attrs attrs_;
  std::vector<std::array<TensorView, 4>> operands_;
};

TEST_CASE("launches that touch different bytes go in one grid") {
  Updates updates;
  updates.Add(0, 4);
  updates.Add(8, 12);
  updates.Add(16, 4);  // reading the same gradient is no conflict
  CHECK(updates.Enqueue() == 1);
  CHECK(updates.At(0) == 0 - 0.5f * 4);
  CHECK(updates.At(11) == 11 - 0.5f * 15);
  CHECK(updates.At(17) == 17 - 0.5f * 5);
}

TEST_CASE("a launch that reads what another writes comes in a later grid") {
  Updates updates;
  updates.Add(0, 4);
  updates.Add(8, 2);  // floats 2 to 5: half of them have just been written
  CHECK(updates.Enqueue() == 2);
  CHECK(updates.At(2) == 2 - 0.5f * 6);
  CHECK(updates.At(8) == 8 - 0.5f * -1);
}

TEST_CASE("a launch that overwrites what another reads comes in a later grid") {
  Updates updates;
  updates.Add(0, 4);
  updates.Add(8, 12);
  updates.Add(4, 16);
  updates.Add(20, 24);
  CHECK(updates.Enqueue() == 2);
  CHECK(updates.At(0) == 0 - 0.5f * 4);
  CHECK(updates.At(4) == 4 - 0.5f * 16);
}

TEST_CASE("a launch that overwrites what another writes comes later") {
  Updates updates;
  updates.Add(0, 4);
  updates.Add(0, 4);
  CHECK(updates.Enqueue() == 2);
  CHECK(updates.At(1) == 1 - 2 * 0.5f * 5);
}

}  // namespace
}  // namespace stowage::gpu
