#ifndef STOWAGE_GPU_STEP_GRAPHS_H_
#define STOWAGE_GPU_STEP_GRAPHS_H_

// Captures the graphs of a step once, and launches them for every step. A branch is the work of a
// cond, of which only one body runs. A step is one graph if it has no branches, or if the device
// supports branches in graphs (TryGraphBranches).
//
// Otherwise, the host takes the branches: a graph ends at each branch, and its last kernel writes
// the index of the chosen body to host memory (EnqueueChoice in gpu/step_kernels.h). The host waits
// for the index, launches the graphs of that body, and continues with the graph after the branch.
//
//   stream   [graph: ... choice]          [body 1] [graph: ...]
//   host                         reads 1
//
// With several graphs, an invalid index ends the step at the branch, and only the work after End is
// still launched. With one graph, no body runs if the index is invalid, but the rest of the step
// does. DeviceQueue::UnlessFault (gpu/enqueue.h) then prevents the rest from writing values that
// outlive the step.
//
//   StepGraphs graphs(device, stream, StepGraphs::Branches::kByHost);
//   Status captured = graphs.Capture([&] {
//     ...                                      // work on the stream
//     graphs.Branch({}, 2, [&](size_t body) { ... });
//     ...
//     graphs.End();
//     ...                                      // the report of the step to the host
//     return Status();
//   });
//   Status launched = graphs.Launch(chosen);
//
// Bodies may contain branches.
//
// SideStream runs copies and collectives concurrently with the kernels of a captured step.

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

/// The maximum number of graphs of a step whose branches the host takes. It limits the device
/// memory of graphs, which is not part of the plan.
inline constexpr size_t kMaxGraphs = 4096;

class StepGraphs {
 public:
  enum class Branches {
    kInGraph,  // requires that Device::HasBranches returns ok
    kByHost,
  };
  /// `device` must outlive this object.
  StepGraphs(Device& device, Stream stream, Branches branches)
      : device_(device), stream_(stream), branches_(branches) {}
  ~StepGraphs();
  StepGraphs(const StepGraphs&) = delete;
  StepGraphs& operator=(const StepGraphs&) = delete;

  Branches branches() const { return branches_; }

  /// Calls `give`, and captures the work that it enqueues on the stream. Must be called only once.
  /// Propagates errors of `give` and of the device.
  Status Capture(const std::function<Status()>& give);
  /// Returns the choice of a later branch, for kInGraph. The work before the branch must set it.
  /// Must be called in Capture. Propagates errors of the device.
  Result<GraphChoice> NewChoice();
  /// Adds a branch with `bodies` bodies. Calls `body(i)` for each of them in order, which must
  /// enqueue its work. With kInGraph, the work before the branch must set `choice`. With kByHost,
  /// it must end with a kernel that writes the index of the chosen body to the host
  /// (EnqueueChoice). Must be called in Capture, after the stream waits for all other streams that
  /// joined the capture. Returns kUnsupported if the step would have more than kMaxGraphs graphs.
  /// Propagates errors of the device. After an error, nothing more may be enqueued.
  Status Branch(GraphChoice choice, size_t bodies,
                const std::function<void(size_t)>& body);

  /// Begins the last part of the step, which is launched even if an invalid index ends the step at
  /// a branch. Must be called in Capture. Propagates errors of the device.
  Status End();

  /// Launches the step on the stream. With kByHost, waits at each branch and reads the index of the
  /// chosen body from `*chosen`. An index that is out of range ends the step, except for the part
  /// after End. Allocates no memory.
  Status Launch(const uint32_t* chosen) const;

 private:
  // A graph, and the bodies of the branch at its end. A graph that does not end at a branch has no
  // bodies.
  struct Section {
    DeviceGraph graph;
    std::vector<std::vector<Section>> bodies = {};
  };

  Status BeginGraph();
  Status EndGraph();
  Status BranchInGraph(GraphChoice choice, size_t bodies,
                       const std::function<void(size_t)>& body);
  Status BranchByHost(size_t bodies, const std::function<void(size_t)>& body);
  // Returns whether every index was valid.
  Result<bool> Launch(std::span<const Section> sections,
                      const uint32_t* chosen) const;
  void Destroy(const std::vector<Section>& sections);

  Device& device_;
  const Stream stream_;
  const Branches branches_;
  std::vector<Section> sections_;
  std::vector<Section>* into_ = &sections_;  // where the next graph is appended
  bool is_capturing_ = false;
  size_t graphs_ = 0;
  Status in_graph_;  // the first error of a branch, for kInGraph
};

inline constexpr Bytes kBranchTrialBytes = 64;

/// Tests whether graphs of the device run the chosen bodies, since a wrong body would be a silent
/// error. Launches a graph on `stream` that has nested branches and a branch that a fault disables.
/// Chooses each body, makes invalid choices, and checks which bodies ran. `scratch` is device
/// memory that is aligned to 64 bytes. Returns kUnsupported if the device does not support branches
/// in graphs, or if the bodies that ran are not the chosen ones. Propagates errors of the device.
/// The caller must let the host take branches after any error.
Status TryGraphBranches(Device& device, Stream stream,
                        std::span<std::byte, kBranchTrialBytes> scratch);

/// Runs launches concurrently with the kernels of a captured step. The launches are copies between
/// host memory and the arena, or messages between ranks.
///
///   compute stream   [kernels ...] fork [kernels ...] wait [reads the copy]
///   side stream                     └── [reload] ───────┘
///
/// A launch on the side stream begins when all work that was enqueued on the compute stream before
/// it is done. A later launch on the compute stream waits for the launches with which it may not
/// run concurrently (runtime/program.h). Launches on the side stream run in order.
///
///   SideStream copies(device, compute, side, events);
///   copies.Begin();  // all calls in the order of the launches
///   device.Copy(to, from, bytes, copies.stream());
///   copies.End(reload);
///   copies.WaitBefore(relu);
///   copies.WaitForAll();  // before the capture ends
class SideStream {
 public:
  /// The events of one launch: its beginning and its end.
  static constexpr size_t kEventsOfALaunch = 2;

  /// `events` must have kEventsOfALaunch events for each launch that begins between two calls of
  /// WaitForAll.
  SideStream(Device& device, Stream compute, Stream side,
             std::span<const Event> events)
      : device_(device), compute_(compute), side_(side), events_(events) {}

  Stream stream() const { return side_; }

  /// Makes work enqueued on the side stream after this call wait for all earlier work on the
  /// compute stream.
  Status Begin();
  /// Marks the end of the work of `launch`, which was enqueued since Begin.
  Status End(const Launch& launch);
  /// Makes the compute stream wait for the launches of this side stream with which `launch` may not
  /// run concurrently.
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
  std::vector<Pending> pending_;  // ended, but not waited for
};

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_STEP_GRAPHS_H_
