#ifndef STOWAGE_GPU_KERNELS_OPTIMIZER_UPDATES_H_
#define STOWAGE_GPU_KERNELS_OPTIMIZER_UPDATES_H_

// Implements the kernels of optimizer updates as templates over the update rule.
//
// Most params of a model are small, so one kernel launch updates many tensors. The params of the
// kernel contain a table of tensors, in which each block finds its tensor. A group is a set of
// tensors with the same settings, such as the learning rate and the decay. Tensors of several
// groups share a launch. The constants of a step are computed once per block, while the first
// elements are loaded.
//
// Nothing is updated if an earlier launch of the step has reported a fault. On the CPU, such a step
// ends before the updates. A group whose scale is infinite (SkipsUpdate in math/optimizer.h) is not
// updated either.
//
//   constinit const GpuKernel SgdUpdate =
//       updates::UpdateEntry<updates::EnqueueMany<updates::SgdRule>>();

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/elementwise.h"
#include "gpu/queue.h"
#include "gpu/simt.h"
#include "ir/element_groups.h"
#include "ir/op_kind.h"
#include "math/optimizer.h"
#include "runtime/kernel.h"

namespace stowage::gpu::updates {

inline constexpr int kThreads = 256;
inline constexpr int64_t kBlockElements = 8192;

// --- The table ----------------------------------------------------------------

inline constexpr int kMaxGroups = 8;
inline constexpr int kMaxSettings = 4;

// The operands and attributes that the tensors of a group share. Groups are compared byte by byte.
struct Group {
  const float* lr;
  const int64_t* step;            // null if the op has no step
  const int64_t* seed;            // null if the op has no seed
  const float* scale;             // scale of the gradient, null for 1
  double settings[kMaxSettings];  // settings of the rule
};

// Identifies the random numbers by which a tensor is rounded stochastically (math/random.h).
struct RoundingId {
  int64_t first;  // index of the random number of element 0
  uint32_t id;
};
struct NoRoundingId {};

template <int kOperands, bool kRounds>
struct Tensor : std::conditional_t<kRounds, RoundingId, NoRoundingId> {
  std::byte* data[kOperands];  // updated operands, then the gradient
  int64_t n;
  int32_t first_block;
  int16_t group;
  bool wide;  // true if all data are aligned for units
};

// The params of a kernel launch, with as many tensors as fit in kMaxParamBytes.
template <int kOperands, bool kRounds>
struct UpdateParams {
  static constexpr size_t kMaxTensors =
      (kMaxParamBytes - sizeof(const uint32_t*) - sizeof(Group) * kMaxGroups -
       2 * sizeof(int32_t)) /
      sizeof(Tensor<kOperands, kRounds>);

  const uint32_t* fault;  // *fault is kNoFault if there is no fault so far
  Group groups[kMaxGroups];
  Tensor<kOperands, kRounds> tensors[kMaxTensors];
  int32_t num_groups;
  int32_t num_tensors;

  int32_t num_blocks() const {
    if (num_tensors == 0) return 0;
    const Tensor<kOperands, kRounds>& last = tensors[num_tensors - 1];
    return last.first_block +
           static_cast<int32_t>(BlocksFor(last.n, kBlockElements));
  }
};

// --- The rules ----------------------------------------------------------------
//
// A rule is a class template over the element type T of the params. It defines its operands, the
// names of its settings, the constants of a step, and the update of a unit, which is a few adjacent
// elements. The updates of a rule that derives from RoundedStochastically also receive the tensor's
// id and the indices of random numbers. A rule that derives from UpdatedByBlock updates blocks of
// kMomentBlock elements. A warp updates one of these blocks at a time.

struct RoundedStochastically {};
struct UpdatedByBlock {};

STOWAGE_DEVICE float Scale(const Group& group) {
  return group.scale == nullptr ? 1.0f : *group.scale;
}

// Returns whether the group must be updated.
STOWAGE_DEVICE bool IsUpdated(const Group& group) {
  return !math::SkipsUpdate(Scale(group));
}

template <typename T, int n, typename Data>
STOWAGE_DEVICE Elements<T, n> Fetch(const Data& data, int k, int64_t i) {
  return LoadElementsOnce<T, n>(reinterpret_cast<const T*>(data[k]) + i);
}
template <typename T, int n, typename Data>
STOWAGE_DEVICE void Keep(const Data& data, int k, int64_t i,
                         const Elements<T, n>& x) {
  StoreElementsOnce(reinterpret_cast<T*>(data[k]) + i, x);
}

template <typename Rule>
inline constexpr bool kRoundsStochastically =
    std::is_base_of_v<RoundedStochastically, Rule>;
template <typename Rule>
inline constexpr bool kUpdatesByBlock = std::is_base_of_v<UpdatedByBlock, Rule>;
template <typename Rule>
using ParamsOf = UpdateParams<Rule::kUpdated + 1, kRoundsStochastically<Rule>>;

// The common base of the rules of Adam and AdamW. Adam adds the decay to the gradient. AdamW
// (kDecoupled) applies it to the weight directly.
template <bool kDecoupled>
struct AdamOf {
  static constexpr bool kHasStep = true;
  static constexpr std::array<const char*, 4> kSettings = {"beta1", "beta2",
                                                           "eps", "decay"};
  struct Constants {
    math::AdamWConstants adamw;
    float scale;
    float coupled_decay;
  };
  STOWAGE_DEVICE static Constants At(const Group& group) {
    const double* settings = group.settings;
    return {math::AdamWConstants::At(*group.step, *group.lr, settings[0],
                                     settings[1], settings[2],
                                     kDecoupled ? settings[3] : 0.0),
            Scale(group), static_cast<float>(settings[3])};
  }
  STOWAGE_DEVICE static float Gradient(const Constants& k, float g, float w) {
    if constexpr (kDecoupled) return g * k.scale;
    return g * k.scale + k.coupled_decay * w;
  }
};

// --- The kernel ---------------------------------------------------------------

template <typename Rule, typename Its, typename Unit>
STOWAGE_DEVICE void UpdateUnit(const typename Rule::Constants& k,
                               const Its& tensor, int64_t i, Unit* unit) {
  if constexpr (kRoundsStochastically<Rule>) {
    unit->Update(k, tensor.id, tensor.first + i);
  } else {
    unit->Update(k);
  }
}

// Returns the index of the last tensor that begins at or before this block.
template <typename Params>
STOWAGE_DEVICE int TensorOfBlock(const Params& p) {
  int low = 0;
  int high = p.num_tensors;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (p.tensors[middle].first_block <= BlockId()) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

// Updates `count` elements of a tensor, starting at `begin`, in units of n elements. Does nothing
// if `well` is false. `begin` and `count` must be multiples of n. Computes `constants`, which the
// block shares.
template <typename Rule, int n, typename Its>
STOWAGE_DEVICE void UpdateUnits(const Its& tensor, int64_t begin, int64_t count,
                                bool well, const Group& group,
                                typename Rule::Constants* constants) {
  int i = ThreadId() * n;
  typename Rule::template Unit<n> unit = {};
  if (i < count) unit.Load(tensor.data, begin + i);
  if (ThreadId() == 0) *constants = Rule::At(group);
  SyncThreads();
  if (i >= count || !well) return;
  const typename Rule::Constants k = *constants;
  while (true) {
    UpdateUnit<Rule>(k, tensor, begin + i, &unit);
    unit.Store(tensor.data, begin + i);
    i += kThreads * n;
    if (i >= count) return;
    unit.Load(tensor.data, begin + i);
  }
}

template <typename Rule>
STOWAGE_KERNEL(kThreads)
UpdateKernel(STOWAGE_PARAMS(ParamsOf<Rule>) p) {
  using Constants = typename Rule::Constants;
  STOWAGE_SHARED(Constants, constants, 1);
  const auto& tensor = p.tensors[TensorOfBlock(p)];
  const Group& group = p.groups[tensor.group];
  const bool well = *p.fault == kNoFault && IsUpdated(group);
  const int64_t begin = (BlockId() - tensor.first_block) * kBlockElements;
  const int64_t count =
      tensor.n - begin < kBlockElements ? tensor.n - begin : kBlockElements;
  if (!tensor.wide) {
    UpdateUnits<Rule, 1>(tensor, begin, count, well, group, &constants[0]);
    return;
  }
  const int64_t in_units = count / Rule::kWidth * Rule::kWidth;
  UpdateUnits<Rule, Rule::kWidth>(tensor, begin, in_units, well, group,
                                  &constants[0]);
  if (well && ThreadId() < count - in_units) {
    const int64_t i = begin + in_units + ThreadId();
    const Constants k = constants[0];
    typename Rule::template Unit<1> unit;
    unit.Load(tensor.data, i);
    UpdateUnit<Rule>(k, tensor, i, &unit);
    unit.Store(tensor.data, i);
  }
}

// Runs a rule that derives from UpdatedByBlock, whose blocks of elements share a scale.
template <typename Rule>
STOWAGE_KERNEL(kThreads, 2)
UpdateBlocksKernel(STOWAGE_PARAMS(ParamsOf<Rule>) p) {
  using Constants = typename Rule::Constants;
  STOWAGE_SHARED(Constants, constants, 1);
  const auto& tensor = p.tensors[TensorOfBlock(p)];
  const Group& group = p.groups[tensor.group];
  if (ThreadId() == 0) constants[0] = Rule::At(group);
  SyncThreads();
  if (*p.fault != kNoFault || !IsUpdated(group)) return;
  const Constants k = constants[0];
  const int64_t begin = (BlockId() - tensor.first_block) * kBlockElements;
  const int64_t end =
      tensor.n - begin < kBlockElements ? tensor.n : begin + kBlockElements;
  constexpr int64_t kWarps = kThreads / kWarpSize;
  static_assert(kBlockElements % kMomentBlock == 0);
  for (int64_t at = begin + Warp() * kMomentBlock; at < end;
       at += kWarps * kMomentBlock) {
    const int count = static_cast<int>(
        end - at < kMomentBlock ? end - at : int64_t{kMomentBlock});
    if (tensor.wide && count % Rule::kWidth == 0) {
      Rule::template UpdateBlock<Rule::kWidth>(k, tensor.data, at, count);
    } else {
      Rule::template UpdateBlock<1>(k, tensor.data, at, count);
    }
  }
}

// --- Filling the table --------------------------------------------------------

inline bool Overlap(const TensorView& a, const TensorView& b) {
  return a.data < b.data + b.type.bytes() && b.data < a.data + a.type.bytes();
}
inline bool AnyOverlap(std::span<const TensorView> a,
                       std::span<const TensorView> b) {
  for (const TensorView& x : a) {
    for (const TensorView& y : b) {
      if (Overlap(x, y)) return true;
    }
  }
  return false;
}
// Returns whether two launches must not run concurrently, because one writes an operand of the
// other.
inline bool Depend(const Launch& a, const Launch& b) {
  return AnyOverlap(a.outputs, b.inputs) || AnyOverlap(b.outputs, a.inputs);
}

template <typename Rule>
class Table {
 public:
  Table(const char* name, Queue& queue) : name_(name), queue_(queue) {}

  // Adds a launch to the table. If `launch` does not fit or depends on a launch in the table,
  // enqueues the kernel launch for the current table first. `before` must contain the launches that
  // were added earlier, in order.
  void Add(std::span<const Launch> before, const Launch& launch) {
    const Group group = GroupOf(launch);
    const auto in_grid = before.last(static_cast<size_t>(params_.num_tensors));
    const bool depends =
        std::any_of(in_grid.begin(), in_grid.end(),
                    [&](const Launch& other) { return Depend(other, launch); });
    if (depends || params_.num_tensors == kMaxTensors ||
        (Find(group) == params_.num_groups &&
         params_.num_groups == kMaxGroups)) {
      Flush();
    }
    const int32_t index = Find(group);
    params_.groups[index] = group;
    params_.num_groups = std::max(params_.num_groups, index + 1);
    const int32_t first_block = params_.num_blocks();
    auto& tensor = params_.tensors[params_.num_tensors++];
    tensor.n = launch.outputs[0].size();
    tensor.first_block = first_block;
    tensor.group = static_cast<int16_t>(index);
    tensor.wide = true;
    if constexpr (kRoundsStochastically<Rule>) {
      tensor.id = static_cast<uint32_t>(launch.attrs->Int("id"));
      tensor.first = launch.attrs->Int("first");
    }
    for (size_t k = 0; k < kOperands; ++k) {
      tensor.data[k] = launch.inputs[k].data;
      tensor.wide = tensor.wide &&
                    reinterpret_cast<uintptr_t>(tensor.data[k]) %
                            static_cast<size_t>(Rule::kBytes[k] * kWidth) ==
                        0;
    }
  }

  void Flush() {
    if (params_.num_tensors == 0) return;
    params_.fault = queue_.fault().word;
    const Grid grid = {.x = static_cast<uint32_t>(params_.num_blocks())};
    if constexpr (kUpdatesByBlock<Rule>) {
      LaunchKernel(queue_, name_, UpdateBlocksKernel<Rule>, params_, grid,
                   kThreads);
    } else {
      LaunchKernel(queue_, name_, UpdateKernel<Rule>, params_, grid, kThreads);
    }
    params_ = {};
  }

 private:
  static constexpr int kOperands = Rule::kUpdated + 1;
  static constexpr int kWidth = Rule::kWidth;
  static constexpr auto kMaxTensors =
      static_cast<int32_t>(ParamsOf<Rule>::kMaxTensors);

  static Group GroupOf(const Launch& launch) {
    size_t next = kOperands;
    Group group = {};
    group.lr = launch.inputs[next++].as<const float>();
    if (Rule::kHasStep) group.step = launch.inputs[next++].as<const int64_t>();
    if (kRoundsStochastically<Rule>) {
      group.seed = launch.inputs[next++].as<const int64_t>();
    }
    if (next < launch.inputs.size()) {
      group.scale = launch.inputs[next].as<const float>();
    }
    for (size_t i = 0; i < Rule::kSettings.size(); ++i) {
      group.settings[i] = launch.attrs->Float(Rule::kSettings[i]);
    }
    return group;
  }

  // Returns the index of `group`, or the number of groups if it is new.
  int32_t Find(const Group& group) const {
    int32_t i = 0;
    while (i < params_.num_groups &&
           std::memcmp(&params_.groups[i], &group, sizeof(group)) != 0) {
      ++i;
    }
    return i;
  }

  const char* name_;
  Queue& queue_;
  ParamsOf<Rule> params_ = {};
};

// Enqueues one or more launches of the same op and element type, in few kernel launches.
template <typename Rule>
void EnqueueRule(std::span<const Launch> launches, Queue& queue) {
  Table<Rule> table(OpName(launches[0].op).data(), queue);
  for (size_t i = 0; i < launches.size(); ++i) {
    table.Add(launches.first(i), launches[i]);
  }
  table.Flush();
}

// Enqueues launches of the same op, which may have different element types. Consecutive launches of
// one type share kernel launches.
template <template <typename> typename Rule>
void EnqueueMany(std::span<const Launch> launches, Queue& queue) {
  while (!launches.empty()) {
    const DType dtype = launches[0].outputs[0].dtype();
    size_t count = 1;
    while (count < launches.size() &&
           launches[count].outputs[0].dtype() == dtype) {
      ++count;
    }
    OnFloat(dtype, [&](auto zero) {
      EnqueueRule<Rule<decltype(zero)>>(launches.first(count), queue);
    });
    launches = launches.subspan(count);
  }
}

template <void (*kEnqueueMany)(std::span<const Launch>, Queue&)>
constexpr GpuKernel UpdateEntry() {
  return {.enqueue =
              [](const Launch& launch, Queue& queue) {
                kEnqueueMany({&launch, 1}, queue);
              },
          .enqueue_many = kEnqueueMany};
}

}  // namespace stowage::gpu::updates

#endif  // STOWAGE_GPU_KERNELS_OPTIMIZER_UPDATES_H_
