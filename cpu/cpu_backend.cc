#include "cpu/cpu_backend.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/memory.h"
#include "base/strings.h"
#include "cpu/blocking.h"
#include "cpu/kernel.h"
#include "cpu/launch_list.h"
#include "cpu/targets.h"
#include "cpu/thread_pool.h"
#include "ir/fused.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "runtime/backend.h"
#include "runtime/host_file.h"
#include "runtime/program.h"

namespace stowage {
namespace {

class CpuExecutable final : public Executable {
 public:
  CpuExecutable(const Program& program, const cpu::RunsWith& with)
      : program_(program),
        host_(with.host),
        list_(program.graph(), program.launches(), with) {}

  void ChooseBlockings(cpu::BlockingAutotuner& autotuner) {
    list_.ChooseBlockings(autotuner);
  }

  StepCode Run(size_t first, size_t last, size_t* failed) noexcept override {
    return list_.Run(first, last, failed);
  }
  StepCode RunPoisoned(size_t index, uint8_t poison,
                       size_t* failed) noexcept override {
    return list_.RunPoisoned(index, poison, failed);
  }

  void WriteInput(ValueId input, std::span<const std::byte> data) override {
    std::memcpy(program_.view(input).data, data.data(), data.size());
  }
  void ReadInput(ValueId input, std::span<std::byte> data) const override {
    std::memcpy(data.data(), program_.view(input).data, data.size());
  }

  std::string fault() const override {
    return host_ == nullptr ? "" : host_->failure();
  }

 private:
  const Program& program_;
  HostFile* const host_;
  cpu::LaunchList list_;
};

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(const CpuOptions& options)
      : target_(cpu::FindCpuTarget(options.target)),
        kernels_(target_.ok() ? *(*target_)->kernels
                              : *cpu::RunningCpuTarget().kernels),
        pool_(options.threads),
        ranks_(options.collectives != nullptr ? options.collectives
                                              : &one_rank_),
        check_(options.check),
        blocking_folder_(options.blocking_folder),
        offload_folder_(options.offload_folder),
        note_(options.note) {
    if (note_ && pool_.started() < pool_.threads()) {
      note_(StrCat("[threads] the system gives this process ", pool_.started(),
                   " of ", pool_.threads(),
                   " threads; steps take longer, and have the same bits"));
    }
    // A checked program runs op by op.
    const bool exchanges = ranks_->ranks() > 1 || !offload_folder_.empty();
    if (exchanges && !check_) {
      exchanges_ = std::make_unique<cpu::ExchangeThread>(*ranks_);
    }
  }

  std::string_view name() const override { return "cpu"; }
  std::string planned_for() const override {
    const int threads = pool_.threads();
    return StrCat("cpu with ", kernels_.vectors, ", ", threads,
                  threads == 1 ? " thread" : " threads");
  }

  Fusions FusesOps() const override {
    return {.elementwise = MayBeFused, .products = true};
  }
  Bytes Workspace(const Graph& graph, const Node& node) const override {
    const auto workspace = cpu::KernelOf(graph, node, kernels_).workspace;
    if (workspace == nullptr) return 0;
    // A node without a kernel needs no scratch; Bind refuses it.
    if (!cpu::Supports(graph, node).ok()) return 0;
    OpArgsStorage storage;
    const OpArgs args = MakeOpArgs(graph, node, &storage);
    std::vector<TensorType> results;
    for (const ValueId id : node.results) {
      results.push_back(graph.value(id).type);
    }
    return workspace(args, results, pool_.threads());
  }

  Status Supports(const Graph& graph) const override {
    if (!target_.ok()) return target_.error();
    for (const Node& node : graph.nodes()) {
      STOWAGE_RETURN_IF_ERROR(cpu::Supports(graph, node));
    }
    return {};
  }

  Result<std::byte*> Allocate(Bytes bytes, Bytes alignment) override {
    return NewBlock("an arena", bytes, alignment);
  }
  void Free(std::byte* block, Bytes, Bytes alignment) noexcept override {
    ::operator delete(block, std::align_val_t(static_cast<size_t>(alignment)));
  }
  // The device being the host, this is memory outside the arena, no more, or a file.
  Result<std::byte*> AllocateHost(Bytes bytes, Bytes alignment) override {
    if (offload_folder_.empty()) {
      return NewBlock("host memory", bytes, alignment);
    }
    STOWAGE_ASSIGN_OR_RETURN(
        std::unique_ptr<HostFile> file,
        HostFile::Create(offload_folder_, bytes, alignment));
    if (file->is_in_memory() && note_) {
      note_(StrCat("[offload] ", Quoted(offload_folder_),
                   " lies in memory (tmpfs), where a file saves none; give a "
                   "folder on a disk"));
    }
    host_files_.push_back(std::move(file));
    return host_files_.back()->base();
  }
  void FreeHost(std::byte* block, Bytes bytes,
                Bytes alignment) noexcept override {
    const HostFile* const file = FileOf(block);
    if (file == nullptr) return Free(block, bytes, alignment);
    std::erase_if(host_files_,
                  [&](const auto& each) { return each.get() == file; });
  }

  Status WriteHost(std::byte* host, std::span<const std::byte> from) override {
    HostFile* const file = FileOf(host);
    if (file == nullptr) return Backend::WriteHost(host, from);
    return file->Write(host, from) ? Status() : FailureOf(*file);
  }
  Status ReadHost(std::span<std::byte> to, const std::byte* host) override {
    HostFile* const file = FileOf(host);
    if (file == nullptr) return Backend::ReadHost(to, host);
    return file->Read(host, to) ? Status() : FailureOf(*file);
  }
  Status FillHost(std::byte* host, Bytes bytes, uint8_t value) override {
    HostFile* const file = FileOf(host);
    if (file == nullptr) return Backend::FillHost(host, bytes, value);
    return file->Fill(host, bytes, value) ? Status() : FailureOf(*file);
  }

  Status CopyIn(std::byte* device, std::span<const std::byte> host) override {
    std::memcpy(device, host.data(), host.size());
    return {};
  }
  Status CopyOut(std::span<std::byte> host, const std::byte* device) override {
    std::memcpy(host.data(), device, host.size());
    return {};
  }
  Status FillBytes(std::byte* device, Bytes bytes, uint8_t value) override {
    std::memset(device, value, static_cast<size_t>(bytes));
    return {};
  }

  Result<std::unique_ptr<Executable>> Bind(const Program& program) override {
    STOWAGE_RETURN_IF_ERROR(Supports(program.graph()));
    STOWAGE_RETURN_IF_ERROR(
        CheckRanks(program.graph(), {.ranks = ranks_->ranks(),
                                     .room = "cpu",
                                     .given = "CpuOptions::collectives"}));
    if (program.plan().alignment % cpu::kWorkspaceAlignment != 0) {
      return Error{ErrorCode::kInvalidArgument,
                   StrCat("[cpu] the plan is aligned to ",
                          program.plan().alignment, " bytes; the kernels need ",
                          cpu::kWorkspaceAlignment, " or a multiple of it")};
    }
    auto executable = std::make_unique<CpuExecutable>(
        program, cpu::RunsWith{.kernels = &kernels_,
                               .pool = &pool_,
                               .ranks = ranks_,
                               .exchanges = exchanges_.get(),
                               .host = FileOf(program.host()),
                               .check = check_});
    if (!blocking_folder_.empty()) ChooseBlockings(*executable);
    return std::unique_ptr<Executable>(std::move(executable));
  }

 private:
  // The file that contains the address; null: it is memory.
  HostFile* FileOf(const std::byte* host) const {
    for (const auto& file : host_files_) {
      if (file->Contains(host)) return file.get();
    }
    return nullptr;
  }
  static Status FailureOf(const HostFile& file) {
    return Error{ErrorCode::kDevice, file.failure()};
  }

  void ChooseBlockings(CpuExecutable& executable) {
    if (!blockings_) {
      blockings_ =
          cpu::BlockingAutotuner::Open(blocking_folder_, kernels_.vectors);
    }
    executable.ChooseBlockings(*blockings_);
    ReturnFreeMemory();  // of trials
    if (blockings_->note() == noted_) return;
    noted_ = blockings_->note();
    if (note_) note_(noted_);
  }

  static Result<std::byte*> NewBlock(std::string_view what, Bytes bytes,
                                     Bytes alignment) {
    STOWAGE_RETURN_IF_ERROR(CheckMemory(what, bytes));
    void* const block = ::operator new(
        static_cast<size_t>(bytes),
        std::align_val_t(static_cast<size_t>(alignment)), std::nothrow);
    if (block == nullptr) {
      return Error{
          ErrorCode::kDevice,
          StrCat("[cpu] ", what, " of ", FormatBytes(bytes), " (", bytes,
                 " bytes) cannot be allocated on this machine")};
    }
    return static_cast<std::byte*>(block);
  }

  const Result<const cpu::CpuTarget*> target_;
  const cpu::KernelTable& kernels_;
  cpu::ThreadPool pool_;
  OneRank one_rank_;
  Collectives* const ranks_;
  const bool check_;
  const std::string blocking_folder_;
  const std::string offload_folder_;
  const std::function<void(const std::string&)> note_;
  std::string noted_;                                // what it was told last
  std::optional<cpu::BlockingAutotuner> blockings_;  // once a program is bound
  std::vector<std::unique_ptr<HostFile>> host_files_;
  // Used with several ranks and with files.
  std::unique_ptr<cpu::ExchangeThread> exchanges_;
};

}  // namespace

std::unique_ptr<Backend> MakeCpuBackend(const CpuOptions& options) {
  CpuOptions chosen = options;
  if (chosen.threads < 1) {
    const auto processors =
        static_cast<int>(std::thread::hardware_concurrency());
    chosen.threads = std::max(processors, 1);
  }
  return std::make_unique<CpuBackend>(chosen);
}

}  // namespace stowage
