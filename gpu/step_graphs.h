#ifndef STOWAGE_GPU_STEP_GRAPHS_H_
#define STOWAGE_GPU_STEP_GRAPHS_H_

// The graphs of a step, captured once and launched for every step: one graph if there are no
// branches, or if the device supports branches in graphs (TryGraphBranches).
//
// Otherwise a graph ends at each branch. Its last kernel writes the number of the chosen body
// to host memory (EnqueueChoice in gpu/step_kernels.h); the host waits for it, launches the
// graphs of that body, and continues with the next graph.
//
//   stream   [graph: ... choice]          [body 1] [graph: ...]
//   host                         reads 1
//
// An invalid choice ends the step there: only the step's end is launched. If the step is one
// graph, an invalid choice runs no body, but the rest of the step still runs;
// DeviceQueue::UnlessFault (gpu/enqueue.h) keeps that rest from writing values that outlive
// the step.
//
//   StepGraphs graphs(device, stream, StepGraphs::Branches::kByHost);
//   Status captured = graphs.Capture([&] {
//     ...                                      // work on the stream
//     graphs.Branch({}, 2, [&](size_t body) { ... });
//     ...
//     graphs.End();
//     ...                                      // the step's report to the host
//     return Status();
//   });
//   Status launched = graphs.Launch(chosen);
//
// Bodies may contain branches.
//
// SideStream runs copies and exchanges concurrently with the kernels of a captured step.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "gpu/device.h"
#include "runtime/kernel.h"
#include "runtime/program.h"

namespace stowage::gpu {

/// The most graphs of a step whose branches the host takes; their memory on the device is not
/// in the plan.
inline constexpr size_t kMaxGraphs = 4096;

class StepGraphs {
 public:
  enum class Branches {
    kInGraph,  // precondition: Device::HasBranches
    kByHost,
  };
  /// `device` must outlive this.
  StepGraphs(Device& device, Stream stream, Branches branches)
      : device_(device), stream_(stream), branches_(branches) {}
  ~StepGraphs();
  StepGraphs(const StepGraphs&) = delete;
  StepGraphs& operator=(const StepGraphs&) = delete;

  Branches branches() const { return branches_; }

  /// Captures the work that `give` enqueues on the stream. May be called once. Errors: those
  /// of `give` and of the device.
  Status Capture(const std::function<Status()>& give);
  /// In Capture, kInGraph: the choice of a later branch, which the work before it sets.
  Result<GraphChoice> NewChoice();
  /// In Capture: a branch of `bodies` bodies; body(i) enqueues each, in order. The work
  /// before it has set `choice` (kInGraph) or ends by writing the choice to the host.
  /// Precondition: streams that joined the capture have been waited for. Errors: the
  /// device's; kUnsupported for more than kMaxGraphs graphs in all. After an error enqueue
  /// nothing more.
  Status Branch(GraphChoice choice, size_t bodies,
                const std::function<void(size_t)>& body);

  /// In Capture: the following work is the step's end, which is always launched. Errors as
  /// above.
  Status End();

  /// Launches the step on the stream. With kByHost, waits for each choice: `*chosen` is the
  /// chosen body, and the step ends if there is none of this number. Allocates nothing.
  Status Launch(const uint32_t* chosen) const;

 private:
  // A graph, and the bodies of the branch at its end; the last graph has none.
  struct Section {
    DeviceGraph graph;
    std::vector<std::vector<Section>> bodies = {};
  };

  Status BeginGraph();
  Status EndGraph();
  Status BranchInGraph(GraphChoice choice, size_t bodies,
                       const std::function<void(size_t)>& body);
  Status BranchByHost(size_t bodies, const std::function<void(size_t)>& body);
  // Whether every choice was valid.
  Result<bool> Launch(std::span<const Section> sections,
                      const uint32_t* chosen) const;
  void Destroy(const std::vector<Section>& sections);

  Device& device_;
  const Stream stream_;
  const Branches branches_;
  std::vector<Section> sections_;
  std::vector<Section>* into_ = &sections_;  // where the next graph goes
  bool is_capturing_ = false;
  size_t graphs_ = 0;
  Status in_graph_;  // of the branches so far
};

inline constexpr Bytes kBranchTrialBytes = 64;

/// Tests whether graphs of the device take branches correctly, since a wrong body would be a
/// silent error: launches a graph of nested branches and one that a fault forbids on
/// `stream`, with choices of each body and of none, and checks which bodies have run.
/// `scratch` is device memory aligned to 64. Errors: kUnsupported if the device has no
/// branches in graphs or other bodies run than were chosen; the device's. After an error the
/// host takes the branches.
Status TryGraphBranches(Device& device, Stream stream,
                        std::span<std::byte, kBranchTrialBytes> scratch);

/// Launches that run concurrently with the kernels of a captured step: copies between host
/// memory and the arena, or exchanges between ranks.
///
///   compute stream   [kernels ...] fork [kernels ...] wait [reads the copy]
///   side stream                     └── [reload] ───────┘
///
/// A launch begins when all work enqueued before it is done. A later launch waits for those
/// with which it may not run concurrently (runtime/program.h). Launches of one side
/// stream run one after the other.
///
///   SideStream copies(device, compute, side, events);
///   copies.Begin();  // all in the order of the launches
///   device.Copy(to, from, bytes, copies.stream());
///   copies.End(reload);
///   copies.WaitBefore(relu);
///   copies.WaitForAll();  // before the capture ends
class SideStream {
 public:
  /// The beginning and the end of a launch.
  static constexpr size_t kEventsOfALaunch = 2;

  /// `events`: kEventsOfALaunch for each launch between two calls of WaitForAll.
  SideStream(Device& device, Stream compute, Stream side,
             std::span<const Event> events)
      : device_(device), compute_(compute), side_(side), events_(events) {}

  Stream stream() const { return side_; }

  /// Work enqueued on the side stream from now on waits for all work on the compute stream.
  Status Begin();
  /// The work enqueued since Begin is `launch`.
  Status End(const Launch& launch);
  /// Makes the compute stream wait for launches with which `launch` may not run concurrently.
  Status WaitBefore(const Launch& launch);
  Status WaitForAll();

 private:
  struct Pending {
    LaunchAccesses accesses;
    Event done;
  };

  Status WaitFor(size_t count);

  Device& device_;
  const Stream compute_, side_;
  const std::span<const Event> events_;
  size_t used_ = 0;
  std::vector<Pending> pending_;  // ended but not waited for
};

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_STEP_GRAPHS_H_
