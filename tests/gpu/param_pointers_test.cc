// Which words of kernels' params are pointers, and whether any leads astray.
// Params are structs of any kind, of which a device sees bytes. So a program is
// captured twice, its blocks of memory lying elsewhere each time: a word that
// moved exactly as a block did points into that block, and one that stayed what
// it was must not be an address of anything. Nothing has to be declared, and
// nothing can be forgotten.
//
//   ParamPointers found = FindPointers(
//       first.captured(), second.captured(), {{first.arena(), second.arena()}});
//   for (const std::string& fault : found.faults) FAIL_CHECK(fault);

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/strings.h"
#include "gpu/device.h"
#include "gpu/enqueue.h"
#include "gpu/gpu_needs.h"
#include "gpu/kernel.h"
#include "gpu/queue.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "nn/model_options.h"
#include "planner/plan.h"
#include "planner/plan_memory.h"
#include "runtime/backend.h"
#include "runtime/kernel.h"
#include "runtime/program.h"
#include "runtime/session.h"
#include "tests/gpu/fake_device.h"
#include "tests/gpu/synthetic_run.h"
#include "tests/support/op_cases.h"

namespace stowage::testing {
namespace {

// The same memory in each of two captures.
struct MovedBlock {
  std::span<const std::byte> first, second;
};

struct ParamPointer {
  size_t kernel = 0;  // which one
  size_t word = 0;    // of its params, 8 bytes each
  size_t block = 0;   // where it points to
  Bytes at = 0;       // and how far from the block's first byte
};

struct ParamPointers {
  std::vector<ParamPointer> pointers;
  // One line each, with the kernel and the word: a pointer that moved with a
  // block but lies beside it; a word that did not move and is the address of
  // something in this process; one that changed otherwise; captures that differ
  // in their kernels.
  std::vector<std::string> faults;
};

struct Range {
  uintptr_t begin = 0, end = 0;
  bool Contains(uintptr_t at) const { return at >= begin && at < end; }
};

// What this process has mapped, save what is too large to be memory: the
// shadows of sanitizers.
std::vector<Range> MappedRanges() {
  constexpr uintptr_t kLargest = uintptr_t{1} << 40;
  std::vector<Range> ranges;
  const std::unique_ptr<FILE, int (*)(FILE*)> maps(
      std::fopen("/proc/self/maps", "r"), std::fclose);
  STOWAGE_CHECK(maps != nullptr);
  char line[4096];
  while (std::fgets(line, sizeof(line), maps.get()) != nullptr) {
    Range range;
    if (std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &range.begin, &range.end) ==
            2 &&
        range.end - range.begin < kLargest) {
      ranges.push_back(range);
    }
  }
  STOWAGE_CHECK(!ranges.empty());
  return ranges;
}

// Whether the lower half of a word may be a number of its own: a count, or a float
// between 2^-31 and 2^32. The upper half is then padding, whose stale bytes are
// often those of an address.
bool IsBesidePadding(uint64_t word) {
  const auto half = static_cast<uint32_t>(word);
  return half < 0x10000 || (half >= 0x30000000 && half < 0x50000000);
}

uint64_t AddressOf(std::span<const std::byte> block) {
  return reinterpret_cast<uintptr_t>(block.data());
}

uint64_t WordOf(const CapturedKernel& kernel, size_t word) {
  uint64_t value = 0;
  std::memcpy(&value, kernel.params.data() + 8 * word, sizeof(value));
  return value;
}

class Finder {
 public:
  explicit Finder(const std::vector<MovedBlock>& blocks)
      : blocks_(blocks), mapped_(MappedRanges()) {
    for (const MovedBlock& block : blocks) {
      STOWAGE_CHECK(block.first.size() == block.second.size());
      const uint64_t distance =
          AddressOf(block.second) - AddressOf(block.first);
      STOWAGE_CHECK(static_cast<uint32_t>(distance) != 0);
      STOWAGE_CHECK(std::ranges::find(distances_, distance) ==
                    distances_.end());
      distances_.push_back(distance);
    }
  }

  void AddKernel(size_t index, const CapturedKernel& first,
                 const CapturedKernel& second) {
    if (first.name != second.name ||
        first.params.size() != second.params.size()) {
      found_.faults.push_back(StrCat("kernel ", index, " is ", first.name,
                                     " once and ", second.name, " once"));
      return;
    }
    // A pointer is 8 bytes at a multiple of 8.
    for (size_t word = 0; word < first.params.size() / 8; ++word) {
      const std::string wrong =
          AddWord(index, word, WordOf(first, word), WordOf(second, word));
      if (wrong.empty()) continue;
      found_.faults.push_back(StrCat("kernel ", index, ", ", first.name,
                                     ", word ", word,
                                     " of its params: ", wrong));
    }
  }

  ParamPointers Take() { return std::move(found_); }

 private:
  // What is wrong with a word, or nothing.
  std::string AddWord(size_t kernel, size_t word, uint64_t first,
                      uint64_t second) {
    const auto moved = std::ranges::find(distances_, second - first);
    if (moved != distances_.end()) {
      const auto block = static_cast<size_t>(moved - distances_.begin());
      const auto at =
          static_cast<Bytes>(first - AddressOf(blocks_[block].first));
      const auto size = static_cast<Bytes>(blocks_[block].first.size());
      if (at < 0 || at >= size) {
        return StrCat("points to byte ", at, " of block ", block, " of ", size);
      }
      found_.pointers.push_back({kernel, word, block, at});
      return "";
    }
    if (static_cast<uint32_t>(first) != static_cast<uint32_t>(second)) {
      return "changed, but not as a block of memory moved";
    }
    const bool is_address =
        first == second && first >> 32 != 0 && !IsBesidePadding(first) &&
        std::ranges::any_of(mapped_, [first](const Range& range) {
          return range.Contains(first);
        });
    return is_address ? "is the address of something that did not move" : "";
  }

  const std::vector<MovedBlock>& blocks_;
  const std::vector<Range> mapped_;
  std::vector<uint64_t> distances_;
  ParamPointers found_;
};

// Numbers below 2^32 are no addresses. The upper 4 bytes of a word may be padding
// and differ alone, as those of a pointer that moved do not; nor is a word that
// stayed an address where its lower 4 bytes read as a count or as a float that
// is neither tiny nor huge, which one address in eight does. So much goes
// unseen, and only as long as it lies there. Other padding is a fault where it
// holds stale bytes, which no initializer prevents everywhere: make such params of
// fields of 4 bytes and more. Aborts unless every block moved, by a distance of its
// own that is no multiple of 2^32.
ParamPointers FindPointers(std::span<const CapturedKernel> first,
                           std::span<const CapturedKernel> second,
                           const std::vector<MovedBlock>& blocks) {
  Finder finder(blocks);
  for (size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
    finder.AddKernel(i, first[i], second[i]);
  }
  ParamPointers found = finder.Take();
  if (first.size() != second.size()) {
    found.faults.push_back(StrCat("there are ", first.size(),
                                  " kernels once and ", second.size(),
                                  " once"));
  }
  return found;
}

// --- The finder ---------------------------------------------------------------

// A block of 512 bytes in two places, and kernels whose params are one struct.
class Pair {
 public:
  std::byte* first() { return memory_.data() + 1024; }
  std::byte* second() { return memory_.data() + 2048; }

  template <typename T>
  ParamPointers Find(const T& first, const T& second) const {
    const std::array<CapturedKernel, 1> a = {Kernel(first)};
    const std::array<CapturedKernel, 1> b = {Kernel(second)};
    const std::byte* block = memory_.data() + 1024;
    return FindPointers(a, b, {{{block, 512}, {block + 1024, 512}}});
  }
  // The one fault, without the place.
  template <typename T>
  std::string Fault(const T& first, const T& second) const {
    const ParamPointers found = Find(first, second);
    REQUIRE(found.faults.size() == 1);
    const std::string& fault = found.faults[0];
    CHECK(fault.find("kernel 0, k, word ") == 0);
    return fault.substr(fault.rfind("params: ") + 8);
  }

 private:
  template <typename T>
  static CapturedKernel Kernel(const T& params) {
    CapturedKernel kernel{"k", std::vector<std::byte>(sizeof(T))};
    std::memcpy(kernel.params.data(), &params, sizeof(T));
    return kernel;
  }

  std::array<std::byte, 4096> memory_ = {};
};

struct Params {
  uint64_t n;
  const void* x;
};

TEST_CASE("a word that moved with a block points into it") {
  Pair pair;
  const ParamPointers found =
      pair.Find(Params{7, pair.first() + 511}, Params{7, pair.second() + 511});
  CHECK(found.faults.empty());
  REQUIRE(found.pointers.size() == 1);
  CHECK(found.pointers[0].kernel == 0);
  CHECK(found.pointers[0].word == 1);
  CHECK(found.pointers[0].block == 0);
  CHECK(found.pointers[0].at == 511);
}

TEST_CASE("numbers, null and padding are no pointers") {
  Pair pair;
  struct Numbers {
    int64_t all_ones = -1;
    const void* null = nullptr;
    uint32_t sizes[2] = {64, 4096};
    float scale[2] = {1.0f, 0.5f};
  };
  const ParamPointers same = pair.Find(Numbers{}, Numbers{});
  CHECK(same.faults.empty());
  CHECK(same.pointers.empty());
  const std::array<uint32_t, 2> once = {9, 0x1234}, again = {9, 0x7FFF};
  CHECK(pair.Find(once, again).faults.empty());
}

TEST_CASE("a pointer beside its block is a fault") {
  Pair pair;
  CHECK(pair.Fault(Params{7, pair.first() + 512},
                   Params{7, pair.second() + 512}) ==
        "points to byte 512 of block 0 of 512");
  CHECK(pair.Fault(Params{7, pair.first() - 8}, Params{7, pair.second() - 8}) ==
        "points to byte -8 of block 0 of 512");
}

// A page of memory at an address of our choice.
class Page {
 public:
  explicit Page(uint64_t address)
      : at_(mmap(reinterpret_cast<void*>(address), kBytes, PROT_READ,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0)) {
    REQUIRE(at_ == reinterpret_cast<void*>(address));
  }
  ~Page() { munmap(at_, kBytes); }
  const void* at() const { return at_; }

 private:
  static constexpr size_t kBytes = 4096;
  void* at_;
};

TEST_CASE("an address that stayed is a fault") {
  Pair pair;
  for (const uint64_t address :
       {0x700000012000, 0x700023456000, 0x700050000000, 0x7000fffff000}) {
    CAPTURE(address);
    std::optional<Page> page(address);
    const Params params{7, page->at()};
    CHECK(pair.Fault(params, params) ==
          "is the address of something that did not move");
    page.reset();
    CHECK(pair.Find(params, params).faults.empty());
  }
}

TEST_CASE(
    "a count or a float beside stale bytes is none, whatever lies there") {
  Pair pair;
  for (const uint64_t address : {0x700000003000, 0x70003F800000}) {  // 1.0f
    const Page page(address);
    const Params params{7, page.at()};
    CHECK(pair.Find(params, params).faults.empty());
  }
}

TEST_CASE("a word that changed as nothing moved is a fault") {
  Pair pair;
  CHECK(
      pair.Fault(Params{7, pair.first() + 8}, Params{7, pair.second() + 16}) ==
      "changed, but not as a block of memory moved");
  CHECK(pair.Fault(Params{7, nullptr}, Params{8, nullptr}) ==
        "changed, but not as a block of memory moved");
}

TEST_CASE("captures of different kernels are faults") {
  const std::array<std::byte, 2048> memory = {};
  const std::vector<MovedBlock> blocks = {
      {{memory.data(), 512}, {memory.data() + 1024, 512}}};
  const std::vector<CapturedKernel> a = {{"a", {}}}, b = {{"b", {}}};
  CHECK(FindPointers(a, b, blocks).faults ==
        std::vector<std::string>{"kernel 0 is a once and b once"});
  CHECK(FindPointers(a, {}, blocks).faults ==
        std::vector<std::string>{"there are 1 kernels once and 0 once"});
}

// --- Whole training steps, and all kernels ------------------------------------

struct Model {
  const char* name;
  DType dtype;
};
constexpr Model kModels[] = {{"mlp", DType::kF32},
                             {"mlp", DType::kBF16},
                             {"gpt-nano", DType::kF32},
                             {"gpt-nano", DType::kBF16}};

// With all that a step can have.
Graph StepOf(const Model& model) {
  ModelOptions options = {.batch = 4, .dtype = model.dtype};
  if (std::string(model.name) == "gpt-nano") {
    options = {.batch = 1, .seq = 32, .dtype = model.dtype, .dropout = 0.1};
  }
  auto step = BuildSyntheticStep(
      {.model = model.name, .options = options, .clip_norm = 1.0});
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  return *std::move(step);
}

Plan PlanOf(const Graph& graph) {
  auto plan = PlanMemory(graph, {.device = GpuNeeds()});
  REQUIRE_MESSAGE(plan.ok(), plan.error().message);
  return *std::move(plan);
}

void CheckFaults(const ParamPointers& found) {
  for (const std::string& fault : found.faults) FAIL_CHECK(fault);
}

// A session that has captured its graph.
struct OpenStep {
  explicit OpenStep(const Graph& step) {
    backend = MakeFakeBackend({}, &device);
    auto opened = Session::Create({{"train", step, PlanOf(step)}}, *backend);
    REQUIRE_MESSAGE(opened.ok(), opened.error().message);
    session.emplace(*std::move(opened));
  }
  FakeDevice* device = nullptr;
  std::unique_ptr<Backend> backend;
  std::optional<Session> session;
};

TEST_CASE("all that a step's kernels are given lies in the arena") {
  size_t kernels = 0, pointers = 0;
  for (const Model& model : kModels) {
    INFO(std::string(model.name), " in ", DTypeName(model.dtype));
    const Graph step = StepOf(model);
    const OpenStep first(step), second(step);
    REQUIRE(first.device->pinned().size() == 1);
    // Block 1, pinned memory of the host, holds the ring.
    const ParamPointers found =
        FindPointers(first.device->captured(), second.device->captured(),
                     {{first.device->arena(), second.device->arena()},
                      {first.device->pinned()[0], second.device->pinned()[0]}});
    CheckFaults(found);
    std::map<std::string, int> in_ring;
    for (const ParamPointer& pointer : found.pointers) {
      CHECK(pointer.at % 2 == 0);  // no element is smaller
      if (pointer.block == 0) continue;
      ++in_ring[first.device->captured()[pointer.kernel].name];
    }
    CHECK(in_ring == std::map<std::string, int>{{"end step", 1}});
    kernels += first.device->captured().size();
    pointers += found.pointers.size();
  }
  MESSAGE("checked ", pointers, " pointers in the params of ", kernels,
          " kernels of 4 training steps");
}

// The launches of a program as a graph, each kernel with those it is for.
class CapturedLaunches {
 public:
  CapturedLaunches(const Graph& graph, bool warpgroups)
      : device_({}), warpgroups_(warpgroups) {
    const Plan plan = PlanOf(graph);
    arena_ = *device_.Allocate(plan.arena_bytes());
    stream_ = *device_.CreateStream();
    if (plan.host_bytes() > 0) {
      host_ = *device_.AllocatePinned(plan.host_bytes());
    }
    program_.emplace(*Program::Resolve(graph, plan, arena_, host_.host));
    Enqueue(gpu::DeviceQueue::Mode::kPrepare);
    REQUIRE(device_.BeginCapture(stream_).ok());
    Enqueue(gpu::DeviceQueue::Mode::kRun);
    device_.Destroy(*device_.EndCapture(stream_));
  }
  ~CapturedLaunches() {
    device_.Destroy(stream_);
    if (host_.host != nullptr) device_.FreePinned(host_);
    device_.Free(arena_);
  }

  const FakeDevice& device() const { return device_; }
  const Program& program() const { return *program_; }
  /// Which launches a kernel belongs to: several, where they are one op's and
  /// its kernel takes many.
  std::span<const Launch> LaunchesOf(size_t kernel) const {
    return launches_of_[kernel];
  }

 private:
  void Enqueue(gpu::DeviceQueue::Mode mode) {
    auto* const fault = reinterpret_cast<uint32_t*>(program_->reserve().data());
    gpu::DeviceQueue queue(device_, stream_, fault, mode);
    if (warpgroups_) {
      queue.set_attention(
          [](const Launch&,
             gpu::AttentionAlgorithms ways) -> Result<gpu::AttentionAlgorithm> {
            return ways.Has(gpu::AttentionAlgorithm::kWarpgroups)
                       ? gpu::AttentionAlgorithm::kWarpgroups
                       : ways.first();
          });
    }
    const std::span<const Launch> all = program_->launches();
    for (size_t i = 0; i < all.size();) {
      size_t count = 1;
      while (gpu::GetKernel(all[i].op).enqueue_many != nullptr &&
             i + count < all.size() && all[i + count].op == all[i].op) {
        ++count;
      }
      gpu::EnqueueLaunches(all.subspan(i, count), queue);
      launches_of_.resize(device_.captured().size(), all.subspan(i, count));
      i += count;
    }
    REQUIRE(queue.Finish(*program_).ok());
  }

  FakeDevice device_;
  const bool warpgroups_;
  std::byte* arena_ = nullptr;
  gpu::PinnedBlock host_;  // of values that lie there: no kernel reads them
  gpu::Stream stream_;
  std::optional<Program> program_;
  std::vector<std::span<const Launch>> launches_of_;
};

// From a view's first element to the end of its last.
Bytes Extent(const TensorView& view) {
  if (view.size() == 0) return 0;
  int64_t last = 0;
  for (int axis = 0; axis < view.shape().rank(); ++axis) {
    last += (view.shape()[axis] - 1) * view.strides[axis];
  }
  return (last + 1) * SizeOf(view.dtype());
}

// Whether `at` is an element of `count` bytes from `data`, of `element` each.
bool IsElement(const std::byte* at, const std::byte* data, Bytes count,
               Bytes element) {
  return at >= data && at < data + count && (at - data) % element == 0 &&
         reinterpret_cast<uintptr_t>(at) % static_cast<uintptr_t>(element) == 0;
}

// Whether an operand, a result or the workspace of a launch has one there.
bool IsIts(const Launch& launch, const std::byte* at) {
  for (const auto views : {launch.inputs, launch.outputs}) {
    for (const TensorView& view : views) {
      if (IsElement(at, view.data, Extent(view), SizeOf(view.dtype()))) {
        return true;
      }
    }
  }
  return IsElement(at, launch.workspace.data(),
                   static_cast<Bytes>(launch.workspace.size()), 4);
}

struct Count {
  size_t kernels = 0, pointers = 0;
};

Count CheckOwnElements(const Graph& graph, bool warpgroups = false) {
  const CapturedLaunches first(graph, warpgroups), second(graph, warpgroups);
  const auto& captured = first.device().captured();
  const ParamPointers found =
      FindPointers(captured, second.device().captured(),
                   {{first.device().arena(), second.device().arena()}});
  CheckFaults(found);
  for (const ParamPointer& pointer : found.pointers) {
    const std::byte* at = first.device().arena().data() + pointer.at;
    const auto launches = first.LaunchesOf(pointer.kernel);
    // Kernels that check indices have the fault's word, too.
    bool is_its = at == first.program().reserve().data();
    for (const Launch& launch : launches) {
      is_its = is_its || IsIts(launch, at);
    }
    INFO(captured[pointer.kernel].name, " of ",
         graph.Describe(launches[0].node), ", word ", pointer.word,
         " of its params, byte ", pointer.at, " of the arena");
    CHECK(is_its);
  }
  return {captured.size(), found.pointers.size()};
}

TEST_CASE("a kernel is given elements of its own operands alone") {
  Count all;
  for (const Model& model : kModels) {
    INFO(std::string(model.name), " in ", DTypeName(model.dtype));
    const Count count = CheckOwnElements(StepOf(model));
    all.kernels += count.kernels;
    all.pointers += count.pointers;
  }
  MESSAGE("checked ", all.pointers, " pointers in the params of ", all.kernels,
          " kernels of 4 training steps");
}

TEST_CASE("so is every kernel of the op table") {
  Count all;
  for (const DType real : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const OpCase& c : GpuOpCases(real)) {
      CAPTURE(c.name);
      const Count count = CheckOwnElements(BuildCase(c));
      all.kernels += count.kernels;
      all.pointers += count.pointers;
    }
  }
  MESSAGE("checked ", all.pointers, " pointers in the params of ", all.kernels,
          " kernels of the op table");
  CHECK(all.kernels > 600);
}

// A tensor map holds an address: one of each operand, in each of three kernels' params
// beside that in AttentionParams. What lies behind it is not an address.
TEST_CASE("tensor maps are of a kernel's own operands") {
  GraphBuilder g("attention");
  const Shape shape{2, 70, 3, 16};
  std::vector<Value> leaves;
  for (const char* name : {"q", "k", "v", "d_o"}) {
    leaves.push_back(g.Input(name, DType::kBF16, shape));
  }
  const std::vector<Value> forward =
      g.Emit(OpKind::kAttention, std::span(leaves).first(3),
             {{"scale", 0.25}, {"causal", int64_t{1}}, {"window", int64_t{0}}});
  const AttentionGrads grads =
      AttentionGrad(leaves[0], leaves[1], leaves[2], forward[0], forward[1],
                    leaves[3], {.scale = 0.25, .causal = true});
  g.Output("o", forward[0]);
  g.Output("dq", grads.dq);
  g.Output("dk", grads.dk);
  g.Output("dv", grads.dv);
  const Result<Graph> graph = g.Finish();
  REQUIRE(graph.ok());
  const size_t plain = CheckOwnElements(*graph, false).pointers;
  const size_t mapped = CheckOwnElements(*graph, true).pointers;
  CHECK(mapped == plain + 3 + 4 + 4);
}

}  // namespace
}  // namespace stowage::testing
