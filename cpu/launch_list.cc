#include "cpu/launch_list.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/bodies.h"
#include "ir/uses.h"
#include "runtime/control_flow.h"
#include "runtime/program.h"
#include "runtime/values.h"

namespace stowage::cpu {
namespace {

bool IsHostCopy(OpKind op) {
  return op == OpKind::kReload || op == OpKind::kOffload ||
         op == OpKind::kOffloadUpdate;
}

std::span<std::byte> BytesOfView(const TensorView& view) {
  return {view.data, static_cast<size_t>(view.type.bytes())};
}

StepCode CopyWithFile(const Launch& launch, HostFile& host) noexcept {
  const bool is_done =
      launch.op == OpKind::kReload
          ? host.Read(launch.inputs[0].data, BytesOfView(launch.outputs[0]))
          : host.Write(launch.outputs[0].data,
                       BytesOfView(launch.inputs.back()));
  return is_done ? StepCode::kOk : StepCode::kDeviceFault;
}

}  // namespace

ExchangeThread::ExchangeThread(Collectives& ranks) : ranks_(ranks) {
  thread_ = std::thread([this] { Work(); });
}

ExchangeThread::~ExchangeThread() {
  static_cast<void>(Land(begun()));
  stop_ = true;
  begun_.fetch_add(1, std::memory_order_release);  // of nothing, to wake it
  begun_.notify_one();
  thread_.join();
}

void ExchangeThread::Begin(const Task& task) noexcept {
  const uint64_t number = begun();
  STOWAGE_CHECK(number - landed_.load(std::memory_order_acquire) <
                tasks_.size());
  tasks_[number % tasks_.size()] = task;
  begun_.store(number + 1, std::memory_order_release);
  begun_.notify_one();
}

StepCode ExchangeThread::Land(uint64_t count) noexcept {
  uint64_t landed = landed_.load(std::memory_order_acquire);
  while (landed < count) {
    landed_.wait(landed, std::memory_order_acquire);
    landed = landed_.load(std::memory_order_acquire);
  }
  return code_;
}

void ExchangeThread::Work() {
  for (uint64_t number = 0;; ++number) {
    begun_.wait(number, std::memory_order_acquire);
    if (stop_) return;
    const Task& task = tasks_[number % tasks_.size()];
    if (code_ == StepCode::kOk) {
      const StepCode code = task.host != nullptr
                                ? CopyWithFile(*task.launch, *task.host)
                                : task.kernel(*task.launch, ranks_);
      if (code != StepCode::kOk) {
        failed_ = task.launch;
        code_ = code;
      }
    }
    landed_.store(number + 1, std::memory_order_release);
    landed_.notify_one();
  }
}

namespace {

bool HasExchangeInBody(const Node& node, bool host_is_file) {
  return std::ranges::any_of(BodiesOf(node), [=](const auto& body) {
    return std::ranges::any_of(body->nodes(), [=](const Node& each) {
      return RunsBeside(each.op, host_is_file) ||
             HasExchangeInBody(each, host_is_file);
    });
  });
}

}  // namespace

bool RunsBeside(OpKind op, bool host_is_file) {
  return IsExchange(op) || (host_is_file && IsHostCopy(op));
}

std::vector<size_t> ExchangesToLand(const Graph& graph,
                                    std::span<const Launch> launches,
                                    bool host_is_file) {
  std::vector<size_t> to_land;
  std::vector<LaunchAccesses> exchanges;
  size_t landed = 0;
  for (const Launch& launch : launches) {
    const Node& node = graph.node(launch.node);
    LaunchAccesses own(launch);
    if (HasExchangeInBody(node, host_is_file)) landed = exchanges.size();
    // The latest exchange that conflicts; those before it will have landed, too.
    for (size_t e = exchanges.size(); e > landed; --e) {
      if (!own.MayRunBeside(exchanges[e - 1])) landed = e;
    }
    if (RunsBeside(node.op, host_is_file)) {
      exchanges.push_back(std::move(own));
      const size_t most = Index(kExchangesUnderWay);
      if (exchanges.size() > most) {
        landed = std::max(landed, exchanges.size() - most);
      }
    }
    to_land.push_back(landed);
  }
  return to_land;
}

namespace {

// Whether all elements of all of them are; kernels write results contiguously.
bool AreFinite(std::span<const TensorView> results) {
  for (const TensorView& result : results) {
    const std::span<const std::byte> bytes(
        result.data, static_cast<size_t>(result.type.bytes()));
    if (FindNonFinite(result.dtype(), bytes)) return false;
  }
  return true;
}

void Fill(std::span<std::byte> bytes, uint8_t value) {
  if (!bytes.empty()) std::memset(bytes.data(), value, bytes.size());
}

template <typename T>
void FillWith(T value, const TensorView& to) {
  std::fill_n(to.as<T>(), to.size(), value);
}

void FillWithNoSum(const TensorView& to) {
  constexpr uint16_t kHalf = 0x8000;  // of f16 and bf16
  switch (to.dtype()) {
    case DType::kF32:
      return FillWith(static_cast<float>(kNoSum), to);
    case DType::kF64:
      return FillWith(kNoSum, to);
    case DType::kF16:
    case DType::kBF16:
      return FillWith(kHalf, to);
    default:
      Fill({to.data, static_cast<size_t>(to.type.bytes())}, 0);
  }
}

// The value of a cond's index.
int64_t IndexIn(const TensorView& index) {
  switch (index.dtype()) {
    case DType::kI32:
      return *index.as<int32_t>();
    case DType::kI64:
      return *index.as<int64_t>();
    default:
      return *index.as<uint8_t>() != 0 ? 1 : 0;
  }
}

}  // namespace

LaunchList::LaunchList(const Graph& graph, std::span<const Launch> launches,
                       const RunsWith& with)
    : launches_(launches),
      blockings_(launches.size()),
      bodies_(launches.size()),
      with_(with) {
  RunsWith in_bodies = with;
  in_bodies.exchanges = nullptr;
  kernels_.reserve(launches.size());
  for (size_t i = 0; i < launches.size(); ++i) {
    kernels_.push_back(
        KernelOf(graph, graph.node(launches[i].node), *with.kernels));
    const ControlFlow* const control = launches[i].control;
    if (control == nullptr) continue;
    for (size_t b = 0; b < control->num_bodies(); ++b) {
      bodies_[i].emplace_back(control->graph(b), control->launches(b),
                              in_bodies);
    }
  }
  if (with.exchanges == nullptr) return;
  size_t exchanges = 0;
  for (const Launch& launch : launches) {
    exchanges_before_.push_back(exchanges);
    if (RunsBeside(launch.op, with.host != nullptr)) ++exchanges;
  }
  to_land_ = ExchangesToLand(graph, launches, with.host != nullptr);
}

void LaunchList::ChooseBlockings(BlockingAutotuner& autotuner) {
  for (size_t i = 0; i < launches_.size(); ++i) {
    for (LaunchList& body : bodies_[i]) body.ChooseBlockings(autotuner);
    if (kernels_[i].trial == nullptr) continue;
    const std::optional<BlockingTrial> trial =
        kernels_[i].trial(launches_[i], with_.pool->threads());
    if (trial) blockings_[i] = autotuner.Choose(*trial, *with_.pool);
  }
}

StepCode LaunchList::Run(size_t first, size_t last,
                         size_t* failed) const noexcept {
  for (size_t i = first; i < last; ++i) {
    const StepCode code = RunInOrder(i, std::nullopt, failed);
    if (code != StepCode::kOk) return code;
  }
  if (with_.exchanges == nullptr || first == last) return StepCode::kOk;
  *failed = last - 1;
  return Land(with_.exchanges->begun(), failed);
}

StepCode LaunchList::RunPoisoned(size_t index, uint8_t poison,
                                 size_t* failed) const noexcept {
  const StepCode code = RunInOrder(index, poison, failed);
  const bool is_last = index + 1 == launches_.size();
  if (code != StepCode::kOk || with_.exchanges == nullptr || !is_last) {
    return code;
  }
  return Land(with_.exchanges->begun(), failed);
}

// Runs launch `index`, or begins it if it is an exchange, after the conflicting exchanges
// have landed.
StepCode LaunchList::RunInOrder(size_t index, Poison poison,
                                size_t* failed) const noexcept {
  *failed = index;
  ExchangeThread* const exchanges = with_.exchanges;
  if (exchanges == nullptr) return RunOne(index, poison);
  const uint64_t under_way = exchanges_before_[index] - to_land_[index];
  StepCode code = Land(exchanges->begun() - under_way, failed);
  if (code != StepCode::kOk) return code;
  const Launch& launch = launches_[index];
  if (IsExchange(launch.op)) {
    exchanges->Begin(
        {.kernel = kernels_[index].run_among_ranks, .launch = &launch});
    return StepCode::kOk;
  }
  if (RunsBeside(launch.op, with_.host != nullptr)) {
    exchanges->Begin({.launch = &launch, .host = with_.host});
    // Dead values are filled at once.
    return poison ? Land(exchanges->begun(), failed) : StepCode::kOk;
  }
  code = RunOne(index, poison);
  // The caller may go on with the arena.
  if (code != StepCode::kOk) {
    static_cast<void>(exchanges->Land(exchanges->begun()));
  }
  return code;
}

// Waits for exchanges. Sets *failed only where one of this list has failed.
StepCode LaunchList::Land(uint64_t count, size_t* failed) const noexcept {
  const StepCode code = with_.exchanges->Land(count);
  if (code == StepCode::kOk) return code;
  static_cast<void>(with_.exchanges->Land(with_.exchanges->begun()));
  const Launch* const launch = with_.exchanges->failed();
  const auto is_it = [launch](const Launch& each) { return &each == launch; };
  const auto found = std::ranges::find_if(launches_, is_it);
  if (found != launches_.end()) {
    *failed = static_cast<size_t>(found - launches_.begin());
  }
  return code;
}

StepCode LaunchList::RunOne(size_t index, Poison poison) const noexcept {
  const Launch& launch = launches_[index];
  if (launch.control != nullptr) {
    return launch.control->is_loop() ? RunLoop(index, poison)
                                     : RunCond(index, poison);
  }
  if (with_.host != nullptr && IsHostCopy(launch.op)) {
    return CopyWithFile(launch, *with_.host);
  }
  const CpuKernel& kernel = kernels_[index];
  const StepCode code =
      kernel.run_among_ranks != nullptr
          ? kernel.run_among_ranks(launch, *with_.ranks)
      : kernel.run_blocked != nullptr
          ? kernel.run_blocked(launch, *with_.pool, blockings_[index])
          : kernel.run(launch, *with_.pool);
  if (with_.check && code == StepCode::kOk && !AreFinite(launch.outputs)) {
    return StepCode::kNonFinite;
  }
  return code;
}

StepCode LaunchList::RunLoop(size_t index, Poison poison) const noexcept {
  const Launch& launch = launches_[index];
  ControlFlow& loop = *launch.control;
  for (size_t s = 0; s < loop.num_sums(); ++s) {
    FillWithNoSum(loop.FirstSum(launch, s));
  }
  for (int64_t i = 0; i < loop.iterations(); ++i) {
    loop.Place(launch, 0, i);
    const StepCode code = RunBody(index, 0, poison);
    if (code != StepCode::kOk) return code;
    if (!poison) continue;
    for (size_t h = 0; h < loop.num_handed_on(); ++h) {
      Fill(loop.ReadPlace(launch, h, i), *poison);
    }
  }
  return StepCode::kOk;
}

StepCode LaunchList::RunCond(size_t index, Poison poison) const noexcept {
  const Launch& launch = launches_[index];
  const int64_t body = IndexIn(launch.inputs[0]);
  if (body < 0 || body >= static_cast<int64_t>(bodies_[index].size())) {
    return StepCode::kIndexOutOfRange;
  }
  launch.control->Place(launch, Index(body), 0);
  return RunBody(index, Index(body), poison);
}

StepCode LaunchList::RunBody(size_t index, size_t body,
                             Poison poison) const noexcept {
  const LaunchList& list = bodies_[index][body];
  for (size_t i = 0; i < list.launches_.size(); ++i) {
    const StepCode code = list.RunOne(i, poison);
    if (code != StepCode::kOk) return code;
    if (!poison) continue;
    for (const std::span<std::byte> dead :
         launches_[index].control->DeadAfter(body, i)) {
      const bool is_in_file =
          with_.host != nullptr && with_.host->Contains(dead.data());
      if (!is_in_file) Fill(dead, *poison);
    }
  }
  return StepCode::kOk;
}

}  // namespace stowage::cpu
