// sgd_update, momentum_update, nesterov_update, rmsprop_update, adagrad_update,
// adam_update, adamw_update, adamw_split_update: in place over parameters and
// state; the formulas are math/optimizer.h's.
//
// A model has a hundred small parameters for each large one, so one grid updates
// many: its params hold a table of tensors, in which each block finds its own.
// Tensors with other settings, a learning rate elsewhere or another decay, are
// in the same grid, as groups. What is the same for all elements of a step is
// computed once a block, while the block's first elements are on their way.
//
// A step with a fault has no gradient worth the name: it updates nothing, as on
// the CPU, where it ends before it comes here.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>

#include "base/check.h"
#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/elementwise.h"
#include "ir/op_kind.h"
#include "math/optimizer.h"
#include "math/split_master.h"

namespace stowage::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kBlockElements = 8192;

// --- The table ----------------------------------------------------------------

constexpr int kMaxGroups = 8;
constexpr int kMaxSettings = 4;

// Operands and attributes that tensors share; byte by byte the same or another
// group.
struct Group {
  const float* lr;
  const int64_t* step;            // null where the op has none
  const float* scale;             // of the gradient; null: 1
  double settings[kMaxSettings];  // the rule's
};

template <int kOperands>
struct Tensor {
  std::byte* data[kOperands];  // what is updated, then the gradient
  int64_t n;
  int32_t first_block;
  int16_t group;
  bool wide;  // all data aligned for units
};

// As many tensors as params have room for.
template <int kOperands>
struct UpdateParams {
  static constexpr size_t kMaxTensors =
      (kMaxParamBytes - sizeof(const uint32_t*) - sizeof(Group) * kMaxGroups -
       2 * sizeof(int32_t)) /
      sizeof(Tensor<kOperands>);

  const uint32_t* fault;  // kNoFault: none so far
  Group groups[kMaxGroups];
  Tensor<kOperands> tensors[kMaxTensors];
  int32_t num_groups;
  int32_t num_tensors;

  int32_t num_blocks() const {
    if (num_tensors == 0) return 0;
    const Tensor<kOperands>& last = tensors[num_tensors - 1];
    return last.first_block +
           static_cast<int32_t>(BlocksFor(last.n, kBlockElements));
  }
};

// --- The rules ----------------------------------------------------------------
//
// A rule says, for elements of T: which operands there are, where its settings
// come from, what is computed once, and how a unit of elements is updated.

STOWAGE_DEVICE float Scale(const Group& group) {
  return group.scale == nullptr ? 1.0f : *group.scale;
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

template <typename T>
struct SgdRule {
  static constexpr int kUpdated = 1;
  static constexpr bool kHasStep = false;
  static constexpr std::array<const char*, 1> kSettings = {"decay"};
  static constexpr std::array<int, 2> kBytes = {sizeof(T), sizeof(T)};
  static constexpr int kWidth = kPackSize<T>;

  struct Constants {
    float lr, decay, scale;
  };
  STOWAGE_DEVICE static Constants At(const Group& group) {
    return {*group.lr, static_cast<float>(group.settings[0]), Scale(group)};
  }

  template <int n>
  struct Unit {
    Elements<T, n> w, g;
    template <typename Data>
    STOWAGE_DEVICE void Load(const Data& data, int64_t i) {
      w = Fetch<T, n>(data, 0, i);
      g = Fetch<T, n>(data, 1, i);
    }
    STOWAGE_DEVICE void Update(const Constants& k) {
      for (int i = 0; i < n; ++i) {
        float new_w = ToFloat(w.value[i]);
        math::SgdStep(k.lr, k.decay, ToFloat(g.value[i]) * k.scale, &new_w);
        w.value[i] = FromFloat<T>(new_w);
      }
    }
    template <typename Data>
    STOWAGE_DEVICE void Store(const Data& data, int64_t i) const {
      Keep(data, 0, i, w);
    }
  };
};

// w and one state. A step says which settings it has, what it computes once of them,
// and how it updates one element.
template <typename T, typename Step>
struct PairRule {
  static constexpr int kUpdated = 2;
  static constexpr bool kHasStep = false;
  static constexpr auto kSettings = Step::kSettings;
  static constexpr std::array<int, 3> kBytes = {sizeof(T), sizeof(T),
                                                sizeof(T)};
  static constexpr int kWidth = kPackSize<T>;

  struct Constants {
    Step step;
    float lr, scale;
  };
  STOWAGE_DEVICE static Constants At(const Group& group) {
    return {Step::At(group.settings), *group.lr, Scale(group)};
  }

  template <int n>
  struct Unit {
    Elements<T, n> w, state, g;
    template <typename Data>
    STOWAGE_DEVICE void Load(const Data& data, int64_t i) {
      w = Fetch<T, n>(data, 0, i);
      state = Fetch<T, n>(data, 1, i);
      g = Fetch<T, n>(data, 2, i);
    }
    STOWAGE_DEVICE void Update(const Constants& k) {
      for (int i = 0; i < n; ++i) {
        float new_w = ToFloat(w.value[i]);
        float new_state = ToFloat(state.value[i]);
        k.step.Update(k.lr, ToFloat(g.value[i]) * k.scale, &new_w, &new_state);
        w.value[i] = FromFloat<T>(new_w);
        state.value[i] = FromFloat<T>(new_state);
      }
    }
    template <typename Data>
    STOWAGE_DEVICE void Store(const Data& data, int64_t i) const {
      Keep(data, 0, i, w);
      Keep(data, 1, i, state);
    }
  };
};

template <bool kNesterov>
struct MomentumSteps {
  static constexpr std::array<const char*, 2> kSettings = {"momentum", "decay"};
  float momentum, decay;
  STOWAGE_DEVICE static MomentumSteps At(const double* settings) {
    return {static_cast<float>(settings[0]), static_cast<float>(settings[1])};
  }
  STOWAGE_DEVICE void Update(float lr, float g, float* w,
                             float* velocity) const {
    if constexpr (kNesterov) {
      math::NesterovStep(lr, momentum, decay, g, w, velocity);
    } else {
      math::MomentumStep(lr, momentum, decay, g, w, velocity);
    }
  }
};

struct RmsPropSteps {
  static constexpr std::array<const char*, 3> kSettings = {"alpha", "eps",
                                                           "decay"};
  float alpha, one_minus_alpha, eps, decay;
  STOWAGE_DEVICE static RmsPropSteps At(const double* settings) {
    return {static_cast<float>(settings[0]),
            static_cast<float>(1 - settings[0]),
            static_cast<float>(settings[1]), static_cast<float>(settings[2])};
  }
  STOWAGE_DEVICE void Update(float lr, float g, float* w, float* v) const {
    math::RmsPropStep(lr, alpha, one_minus_alpha, eps, decay, g, w, v);
  }
};

struct AdagradSteps {
  static constexpr std::array<const char*, 2> kSettings = {"eps", "decay"};
  float eps, decay;
  STOWAGE_DEVICE static AdagradSteps At(const double* settings) {
    return {static_cast<float>(settings[0]), static_cast<float>(settings[1])};
  }
  STOWAGE_DEVICE void Update(float lr, float g, float* w, float* v) const {
    math::AdagradStep(lr, eps, decay, g, w, v);
  }
};

template <typename T>
using MomentumRule = PairRule<T, MomentumSteps<false>>;
template <typename T>
using NesterovRule = PairRule<T, MomentumSteps<true>>;
template <typename T>
using RmsPropRule = PairRule<T, RmsPropSteps>;
template <typename T>
using AdagradRule = PairRule<T, AdagradSteps>;

// What Adam and the two AdamW rules share. The decay is part of the gradient, or of
// the weight by itself (AdamW).
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

template <typename T, bool kDecoupled>
struct AdamRuleOf : AdamOf<kDecoupled> {
  using Constants = typename AdamOf<kDecoupled>::Constants;
  static constexpr int kUpdated = 3;
  static constexpr std::array<int, 4> kBytes = {sizeof(T), sizeof(T), sizeof(T),
                                                sizeof(T)};
  static constexpr int kWidth = kPackSize<T>;

  template <int n>
  struct Unit {
    Elements<T, n> w, m, v, g;
    template <typename Data>
    STOWAGE_DEVICE void Load(const Data& data, int64_t i) {
      w = Fetch<T, n>(data, 0, i);
      m = Fetch<T, n>(data, 1, i);
      v = Fetch<T, n>(data, 2, i);
      g = Fetch<T, n>(data, 3, i);
    }
    STOWAGE_DEVICE void Update(const Constants& k) {
      for (int i = 0; i < n; ++i) {
        float new_w = ToFloat(w.value[i]);
        float new_m = ToFloat(m.value[i]);
        float new_v = ToFloat(v.value[i]);
        const float gradient =
            AdamOf<kDecoupled>::Gradient(k, ToFloat(g.value[i]), new_w);
        math::AdamWStep(k.adamw, gradient, &new_w, &new_m, &new_v);
        w.value[i] = FromFloat<T>(new_w);
        m.value[i] = FromFloat<T>(new_m);
        v.value[i] = FromFloat<T>(new_v);
      }
    }
    template <typename Data>
    STOWAGE_DEVICE void Store(const Data& data, int64_t i) const {
      Keep(data, 0, i, w);
      Keep(data, 1, i, m);
      Keep(data, 2, i, v);
    }
  };
};

template <typename T>
using AdamRule = AdamRuleOf<T, false>;
template <typename T>
using AdamWRule = AdamRuleOf<T, true>;

// The weight is a bf16 and the 16 bits that make it an f32.
struct AdamWSplitRule : AdamOf<true> {
  static constexpr int kUpdated = 4;
  static constexpr std::array<int, 5> kBytes = {2, 2, 4, 4, 2};
  static constexpr int kWidth = kPackSize<float>;

  template <int n>
  struct Unit {
    Elements<BF16, n> w, g;
    Elements<int16_t, n> delta;
    Elements<float, n> m, v;
    template <typename Data>
    STOWAGE_DEVICE void Load(const Data& data, int64_t i) {
      w = Fetch<BF16, n>(data, 0, i);
      delta = Fetch<int16_t, n>(data, 1, i);
      m = Fetch<float, n>(data, 2, i);
      v = Fetch<float, n>(data, 3, i);
      g = Fetch<BF16, n>(data, 4, i);
    }
    STOWAGE_DEVICE void Update(const Constants& k) {
      for (int i = 0; i < n; ++i) {
        float master = math::Join({w.value[i].bits, delta.value[i]});
        math::AdamWStep(k.adamw, ToFloat(g.value[i]) * k.scale, &master,
                        &m.value[i], &v.value[i]);
        const math::SplitMaster parts = math::Split(master);
        w.value[i] = {parts.weight};
        delta.value[i] = parts.delta;
      }
    }
    template <typename Data>
    STOWAGE_DEVICE void Store(const Data& data, int64_t i) const {
      Keep(data, 0, i, w);
      Keep(data, 1, i, delta);
      Keep(data, 2, i, m);
      Keep(data, 3, i, v);
    }
  };
};

// --- The kernel ---------------------------------------------------------------

// Updates `count` elements of a tensor from `begin` on, a multiple of n, if the
// step is well. `constants` is shared by the block and computed here.
template <typename Rule, int n, typename Data>
STOWAGE_DEVICE void UpdateUnits(const Data& data, int64_t begin, int64_t count,
                                bool well, const Group& group,
                                typename Rule::Constants* constants) {
  int i = ThreadId() * n;
  typename Rule::template Unit<n> unit = {};
  if (i < count) unit.Load(data, begin + i);
  if (ThreadId() == 0) *constants = Rule::At(group);
  SyncThreads();
  if (i >= count || !well) return;
  const typename Rule::Constants k = *constants;
  while (true) {
    unit.Update(k);
    unit.Store(data, begin + i);
    i += kThreads * n;
    if (i >= count) return;
    unit.Load(data, begin + i);
  }
}

template <typename Rule>
STOWAGE_KERNEL(kThreads)
UpdateKernel(STOWAGE_PARAMS(UpdateParams<Rule::kUpdated + 1>) p) {
  using Constants = typename Rule::Constants;
  STOWAGE_SHARED(Constants, constants, 1);
  const bool well = *p.fault == kNoFault;
  // The last tensor that does not begin behind this block.
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
  const auto& tensor = p.tensors[low];
  const Group& group = p.groups[tensor.group];
  const int64_t begin = (BlockId() - tensor.first_block) * kBlockElements;
  const int64_t count =
      tensor.n - begin < kBlockElements ? tensor.n - begin : kBlockElements;
  if (!tensor.wide) {
    UpdateUnits<Rule, 1>(tensor.data, begin, count, well, group, &constants[0]);
    return;
  }
  const int64_t in_units = count / Rule::kWidth * Rule::kWidth;
  UpdateUnits<Rule, Rule::kWidth>(tensor.data, begin, in_units, well, group,
                                  &constants[0]);
  if (well && ThreadId() < count - in_units) {
    const int64_t i = begin + in_units + ThreadId();
    const Constants k = constants[0];
    typename Rule::template Unit<1> unit;
    unit.Load(tensor.data, i);
    unit.Update(k);
    unit.Store(tensor.data, i);
  }
}

// --- Filling the table --------------------------------------------------------

bool Overlap(const TensorView& a, const TensorView& b) {
  return a.data < b.data + b.type.bytes() && b.data < a.data + a.type.bytes();
}
bool AnyOverlap(std::span<const TensorView> a, std::span<const TensorView> b) {
  for (const TensorView& x : a) {
    for (const TensorView& y : b) {
      if (Overlap(x, y)) return true;
    }
  }
  return false;
}
// Whether the two may not run at once.
bool Depend(const Launch& a, const Launch& b) {
  return AnyOverlap(a.outputs, b.inputs) || AnyOverlap(b.outputs, a.inputs);
}

template <typename Rule>
class Table {
 public:
  Table(const char* name, Queue& queue) : name_(name), queue_(queue) {}

  // Enqueues the grid before, where `launch` does not go into it.
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
    Tensor<kOperands>& tensor = params_.tensors[params_.num_tensors++];
    tensor.n = launch.outputs[0].size();
    tensor.first_block = first_block;
    tensor.group = static_cast<int16_t>(index);
    tensor.wide = true;
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
    LaunchKernel(queue_, name_, UpdateKernel<Rule>, params_,
                 {.x = static_cast<uint32_t>(params_.num_blocks())}, kThreads);
    params_ = {};
  }

 private:
  static constexpr int kOperands = Rule::kUpdated + 1;
  static constexpr int kWidth = Rule::kWidth;
  static constexpr auto kMaxTensors =
      static_cast<int32_t>(UpdateParams<kOperands>::kMaxTensors);

  static Group GroupOf(const Launch& launch) {
    size_t next = kOperands;
    Group group = {};
    group.lr = launch.inputs[next++].as<const float>();
    if (Rule::kHasStep) group.step = launch.inputs[next++].as<const int64_t>();
    if (next < launch.inputs.size()) {
      group.scale = launch.inputs[next].as<const float>();
    }
    for (size_t i = 0; i < Rule::kSettings.size(); ++i) {
      group.settings[i] = launch.attrs->Float(Rule::kSettings[i]);
    }
    return group;
  }

  // The index of `group`, or of the next one.
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
  UpdateParams<kOperands> params_ = {};
};

// Launches of one rule, at least one, in few grids.
template <typename Rule>
void EnqueueRule(std::span<const Launch> launches, Queue& queue) {
  Table<Rule> table(OpName(launches[0].op).data(), queue);
  for (size_t i = 0; i < launches.size(); ++i) {
    table.Add(launches.first(i), launches[i]);
  }
  table.Flush();
}

// Cuts the launches where the element type changes.
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

}  // namespace

namespace kernels {

constinit const GpuKernel SgdUpdate = UpdateEntry<EnqueueMany<SgdRule>>();
constinit const GpuKernel MomentumUpdate =
    UpdateEntry<EnqueueMany<MomentumRule>>();
constinit const GpuKernel NesterovUpdate =
    UpdateEntry<EnqueueMany<NesterovRule>>();
constinit const GpuKernel RmsPropUpdate =
    UpdateEntry<EnqueueMany<RmsPropRule>>();
constinit const GpuKernel AdagradUpdate =
    UpdateEntry<EnqueueMany<AdagradRule>>();
constinit const GpuKernel AdamUpdate = UpdateEntry<EnqueueMany<AdamRule>>();
constinit const GpuKernel AdamWUpdate = UpdateEntry<EnqueueMany<AdamWRule>>();
constinit const GpuKernel AdamWSplitUpdate =
    UpdateEntry<EnqueueRule<AdamWSplitRule>>();

}  // namespace kernels
}  // namespace stowage::gpu
