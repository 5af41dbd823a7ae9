#include "gpu/step_graphs.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "base/result.h"
#include "base/strings.h"
#include "gpu/enqueue.h"
#include "gpu/queue.h"
#include "gpu/step_kernels.h"
#include "ir/tensor_type.h"
#include "runtime/kernel.h"

namespace stowage::gpu {

StepGraphs::~StepGraphs() { Destroy(sections_); }

void StepGraphs::Destroy(const std::vector<Section>& sections) {
  for (const Section& section : sections) {
    device_.Destroy(section.graph);
    for (const auto& body : section.bodies) Destroy(body);
  }
}

Status StepGraphs::BeginGraph() {
  const Status begun = device_.BeginCapture(stream_);
  is_capturing_ = begun.ok();
  return begun;
}

Status StepGraphs::EndGraph() {
  is_capturing_ = false;
  STOWAGE_ASSIGN_OR_RETURN(const DeviceGraph graph,
                           device_.EndCapture(stream_));
  into_->push_back({graph});
  return {};
}

Status StepGraphs::Capture(const std::function<Status()>& give) {
  STOWAGE_RETURN_IF_ERROR(BeginGraph());
  const Status given = give();
  const Status ended = is_capturing_ ? EndGraph() : Status();
  return given.ok() ? ended : given;
}

Result<GraphChoice> StepGraphs::NewChoice() {
  return device_.NewChoice(stream_);
}

Status StepGraphs::Branch(GraphChoice choice, size_t bodies,
                          const std::function<void(size_t)>& body) {
  return branches_ == Branches::kInGraph ? BranchInGraph(choice, bodies, body)
                                         : BranchByHost(bodies, body);
}

Status StepGraphs::BranchInGraph(GraphChoice choice, size_t bodies,
                                 const std::function<void(size_t)>& body) {
  in_graph_ = device_.BeginBranch(choice, bodies, stream_);
  for (size_t b = 0; b < bodies && in_graph_.ok(); ++b) {
    body(b);  // in which a branch may fail
    if (in_graph_.ok()) in_graph_ = device_.NextBody(stream_);
  }
  return in_graph_;
}

Status StepGraphs::BranchByHost(size_t bodies,
                                const std::function<void(size_t)>& body) {
  graphs_ += 1 + bodies;
  if (graphs_ > kMaxGraphs) {
    return Error{
        ErrorCode::kUnsupported,
        StrCat("[gpu] the step is more than ", kMaxGraphs,
               " graphs, for a branch in a loop is captured for each "
               "iteration; give the loop fewer iterations, or use the cpu")};
  }
  STOWAGE_RETURN_IF_ERROR(EndGraph());
  std::vector<Section>* const outer = into_;
  outer->back().bodies.resize(bodies);
  for (size_t b = 0; b < bodies; ++b) {
    STOWAGE_RETURN_IF_ERROR(BeginGraph());
    std::vector<Section> sections;
    into_ = &sections;
    body(b);
    const Status ended = is_capturing_ ? EndGraph() : Status();
    into_ = outer;
    outer->back().bodies[b] = std::move(sections);
    STOWAGE_RETURN_IF_ERROR(ended);
  }
  return BeginGraph();
}

Status StepGraphs::End() {
  // All is one graph, or an error has ended it before.
  if (sections_.empty() || !is_capturing_) return {};
  STOWAGE_RETURN_IF_ERROR(EndGraph());
  return BeginGraph();
}

Status StepGraphs::Launch(const uint32_t* chosen) const {
  const auto all = std::span(sections_);
  STOWAGE_ASSIGN_OR_RETURN([[maybe_unused]] const bool is_whole,
                           Launch(all.first(all.size() - 1), chosen));
  return device_.LaunchGraph(sections_.back().graph, stream_);
}

Result<bool> StepGraphs::Launch(std::span<const Section> sections,
                                const uint32_t* chosen) const {
  for (const Section& section : sections) {
    STOWAGE_RETURN_IF_ERROR(device_.LaunchGraph(section.graph, stream_));
    if (section.bodies.empty()) continue;
    STOWAGE_RETURN_IF_ERROR(device_.Synchronize(stream_));
    if (*chosen >= section.bodies.size()) return false;
    STOWAGE_ASSIGN_OR_RETURN(const bool is_whole,
                             Launch(section.bodies[*chosen], chosen));
    if (!is_whole) return false;
  }
  return true;
}

namespace {

// The contents of the scratch.
struct BranchTrial {
  int32_t outer = 0, inner = 0;
  uint32_t fault = kNoFault;
  // A letter for each part that has run, and those that had when the last one did.
  uint8_t ran[4] = {};
  uint8_t seen[4] = {};
};
static_assert(sizeof(BranchTrial) <= kBranchTrialBytes);

constexpr Bytes kRanAt = offsetof(BranchTrial, ran);
constexpr Bytes kSeenAt = offsetof(BranchTrial, seen);

// outer is 0: a; 1: b or c, as inner is; without a fault, d.
struct Case {
  int32_t outer, inner;
  const char* ran;
  bool has_fault;
};
constexpr Case kCases[] = {{0, 1, "ad", false}, {1, 0, "bd", false},
                           {2, 0, "", true},    {1, 1, "cd", false},
                           {1, 5, "", true},    {-1, 1, "", true},
                           {0, 0, "ad", false}};

TensorView Index(std::byte* at) { return {at, {DType::kI32, {}}, {}}; }

Status Give(std::byte* at, DeviceQueue& queue) {
  const auto run = [&](Bytes letter) {
    queue.Fill(at + kRanAt + letter, static_cast<uint8_t>('a' + letter), 1);
  };
  const TensorView outer = Index(at + offsetof(BranchTrial, outer));
  const TensorView inner = Index(at + offsetof(BranchTrial, inner));
  queue.Branch(outer, 2, [&](size_t body) {
    if (body == 0) return run(0);
    queue.Branch(inner, 2, [&](size_t in) { run(1 + static_cast<Bytes>(in)); });
  });
  queue.UnlessFault([&] { run(3); });
  queue.Copy(at + kSeenAt, at + kRanAt, sizeof(BranchTrial::seen));
  return queue.status();
}

Status RunCase(const Case& wanted, const StepGraphs& graph, Device& device,
               Stream stream, std::byte* at) {
  BranchTrial trial = {.outer = wanted.outer, .inner = wanted.inner};
  STOWAGE_RETURN_IF_ERROR(device.Copy(at, &trial, sizeof(trial), stream));
  STOWAGE_RETURN_IF_ERROR(graph.Launch(nullptr));
  STOWAGE_RETURN_IF_ERROR(device.Copy(&trial, at, sizeof(trial), stream));
  STOWAGE_RETURN_IF_ERROR(device.Synchronize(stream));
  std::string ran;
  for (const uint8_t letter : trial.seen) {
    if (letter != 0) ran += static_cast<char>(letter);
  }
  const bool has_fault = trial.fault != kNoFault;
  if (ran == wanted.ran && has_fault == wanted.has_fault) return {};
  return Error{
      ErrorCode::kUnsupported,
      StrCat("[gpu] a graph's branches ran ", Quoted(ran),
             has_fault ? " with" : " without", " a fault for the choices ",
             wanted.outer, ", ", wanted.inner, "; expected ",
             Quoted(wanted.ran), wanted.has_fault ? " with one" : " without")};
}

}  // namespace

Status TryGraphBranches(Device& device, Stream stream,
                        std::span<std::byte, kBranchTrialBytes> scratch) {
  STOWAGE_RETURN_IF_ERROR(device.HasBranches());
  std::byte* const at = scratch.data();
  auto* const fault =
      reinterpret_cast<uint32_t*>(at + offsetof(BranchTrial, fault));
  DeviceQueue prepare(device, stream, fault, DeviceQueue::Mode::kPrepare);
  EnqueueGraphChoice(DType::kI32, at, 2, {}, prepare);
  EnqueueSoundChoice({}, prepare);
  STOWAGE_RETURN_IF_ERROR(prepare.status());
  StepGraphs graph(device, stream, StepGraphs::Branches::kInGraph);
  DeviceQueue queue(device, stream, fault, DeviceQueue::Mode::kRun);
  queue.set_choice(nullptr, nullptr, &graph);
  STOWAGE_RETURN_IF_ERROR(graph.Capture([&] { return Give(at, queue); }));
  for (const Case& wanted : kCases) {
    STOWAGE_RETURN_IF_ERROR(RunCase(wanted, graph, device, stream, at));
  }
  return {};
}

Status SideStream::Begin() {
  STOWAGE_CHECK(used_ + kEventsOfALaunch <= events_.size());
  const Event begin = events_[used_];
  STOWAGE_RETURN_IF_ERROR(device_.Record(begin, compute_));
  return device_.Await(side_, begin);
}

Status SideStream::End(const Launch& launch) {
  const Event done = events_[used_ + 1];
  used_ += kEventsOfALaunch;
  STOWAGE_RETURN_IF_ERROR(device_.Record(done, side_));
  pending_.push_back({LaunchAccesses(launch), done});
  return {};
}

// Launches end in the order in which they began.
Status SideStream::WaitFor(size_t count) {
  if (count == 0) return {};
  STOWAGE_RETURN_IF_ERROR(device_.Await(compute_, pending_[count - 1].done));
  pending_.erase(pending_.begin(),
                 pending_.begin() + static_cast<std::ptrdiff_t>(count));
  if (pending_.empty()) used_ = 0;
  return {};
}

Status SideStream::WaitBefore(const Launch& launch) {
  if (pending_.empty()) return {};
  const LaunchAccesses own(launch);
  size_t count = pending_.size();
  while (count > 0 && own.MayRunBeside(pending_[count - 1].accesses)) --count;
  return WaitFor(count);
}

Status SideStream::WaitForAll() { return WaitFor(pending_.size()); }

}  // namespace stowage::gpu
