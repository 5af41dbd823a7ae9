#ifndef STOWAGE_ADMISSION_ADMISSION_H_
#define STOWAGE_ADMISSION_ADMISSION_H_

// Reserves memory for jobs that share a device or a cgroup. Each job reserves its planned
// bytes before it starts.
//
// A ledger is one file. A job reserves bytes of a resource in it, and holds them for the
// lifetime of its reservation. The sum of the bytes held never exceeds the resource's
// capacity. A job that does not fit waits or is refused. The order is first come, first
// served: a later job, however small, never starts before an earlier job that waits for the
// same resource.
//
//   Result<Ledger> ledger = Ledger::Open("/var/tmp/gpus.ledger");
//   if (!ledger.ok()) return ledger.error();
//   Result<Reservation> held = ledger->Reserve({.resource = "device:0",
//                                               .capacity = Bytes{16} << 30,
//                                               .bytes = plan.arena_bytes(),
//                                               .name = "nightly",
//                                               .patience = std::nullopt});
//   if (!held.ok()) return held.error();   // names the jobs that hold the bytes
//   Train();                               // ~Reservation releases the bytes
//
// There is no daemon. Each job locks its own record in the file (a lock of the open file
// description, fcntl F_OFD_SETLK). The kernel releases the lock when the process ends, for
// any reason. An unlocked record belongs to no job, and the next job reuses it. Process IDs
// are not used for decisions, so containers with their own PID namespaces can share a
// ledger. If a process is killed while it writes its record, the record is not locked, so
// no repair is needed. The lock of the header serializes all decisions.
//
// A lock belongs to all processes that share the open file. A child that was forked and has
// not called exec holds the bytes together with its parent. A file that is not a ledger, or
// whose locked records are damaged, is refused and not written to. If a ledger is removed
// or replaced while jobs hold bytes, these bytes are no longer counted. On NFS, the server
// must provide locks. Jobs on several machines can then share a ledger.
//
// Several threads may use a Ledger and its reservations, but only one thread at a time may
// use each object.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace stowage {

/// A job of a ledger, which holds bytes of a resource or waits for them.
struct LedgerJob {
  std::string resource;  // "device:0", "cgroup" or any word.
  Bytes capacity = 0;    // The resource's capacity, equal for all its jobs.
  Bytes bytes = 0;
  std::string name;
  bool is_held = false;  // False if the job waits.
  int64_t ticket = 0;    // A job with a lower ticket arrived earlier.
  /// The start of holding or waiting, in seconds since 1970, UTC.
  int64_t since = 0;
  /// The process ID of the job in its own PID namespace. Only for display.
  int64_t process = 0;

  friend bool operator==(const LedgerJob&, const LedgerJob&) = default;
};

inline constexpr size_t kRecordBytes = 512;
inline constexpr size_t kMaxResourceBytes = 100;
inline constexpr size_t kMaxJobNameBytes = 256;

/// Returns kInvalidArgument unless a record can store `job`. The resource must have 1 to
/// kMaxResourceBytes bytes and no spaces. The name must have 1 to kMaxJobNameBytes bytes
/// and neither begin nor end with a space. Control characters are not allowed in either.
/// `bytes` and `capacity` must be at least 1, but `bytes` may exceed `capacity`.
Status CheckJob(const LedgerJob& job);

/// Returns the job's line in the file. The line has kRecordBytes bytes, padded with spaces,
/// so that a job rewrites only its own record. It contains a digest, the state, ticket,
/// bytes, capacity, since, process, resource and name. If a process is killed while it
/// writes a record, the digest is wrong. `job` must pass CheckJob.
///
///   job 5f0c... held 3 2147483648 8589934592 1700000000 4711 device:0 train small
std::string FormatJobRecord(const LedgerJob& job);

/// Returns the job of a record that FormatJobRecord returned. Returns nullopt for any other
/// text, and for a job whose ticket is below 1 or whose bytes exceed its capacity.
std::optional<LedgerJob> ParseJobRecord(std::string_view record);

/// Returns a description of `job`, such as
/// `"train small" 2.0 GiB (2147483648 bytes) since 2023-11-14T22:13:20Z, process 4711`.
std::string DescribeJob(const LedgerJob& job);

/// Returns `seconds` since 1970 as UTC in the form "2023-11-14T22:13:20Z".
std::string FormatUtc(int64_t seconds);

/// Returns `bytes` in the form "2.0 GiB (2147483648 bytes)".
std::string FormatExactBytes(Bytes bytes);

/// The maximum number of jobs in a ledger.
inline constexpr int kMaxLedgerJobs = 4096;

struct ReservationRequest {
  std::string resource;  // "device:0", "cgroup" or any word.
  Bytes capacity = 0;    // The resource's capacity, for all its jobs together.
  Bytes bytes = 0;
  std::string name;  // In messages and lists.
  /// The maximum waiting time of Reserve. If absent, the time is unlimited.
  std::optional<std::chrono::milliseconds> patience =
      std::chrono::milliseconds(0);
  /// Called once by Reserve when it begins to wait, with the jobs of the ledger.
  std::function<void(const std::vector<LedgerJob>&)> on_wait = {};
};

/// Bytes that a job holds, or its position in the queue, until this object is destroyed or
/// the process ends.
class Reservation {
 public:
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation();

  const LedgerJob& job() const { return job_; }
  bool is_held() const { return job_.is_held; }

  /// Holds the bytes if they fit now and no earlier job waits for the resource. Returns
  /// is_held(). Returns the errors of Ledger::Enter that concern the file. Returns kIo if
  /// the ledger was removed or replaced.
  Result<bool> TryHold();

  /// Keeps the reservation across exec, until the new program and all children that inherit
  /// the descriptor have ended. Returns kIo if the descriptor cannot be changed.
  Status KeepOverExec() const;

 private:
  friend class Ledger;
  Reservation(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_ = -1;
  int64_t record_ = -1;
  LedgerJob job_;
};

class Ledger {
 public:
  /// Opens the ledger at `path`. Creates it if the file is missing or empty. Returns kIo if
  /// the file cannot be opened or written, if its file system has no locks, or if another
  /// process has kept it locked for 30 seconds. Returns kInvalidArgument if the file is not
  /// a ledger.
  static Result<Ledger> Open(const std::string& path);

  /// Waits until the bytes fit and no earlier job waits for the resource, and then holds
  /// them.
  ///
  /// Returns kDevice if the bytes do not become free within `patience`, naming the jobs
  /// that hold bytes or wait. Returns kBudgetTooSmall if the bytes exceed the capacity.
  /// Returns kInvalidArgument if the request violates CheckJob, if its capacity differs
  /// from the capacity of the resource's other jobs, or if a record is damaged. Returns
  /// kUnsupported if the ledger has too many jobs. Returns kIo like Open, and kNotFound if
  /// the file has been removed.
  Result<Reservation> Reserve(const ReservationRequest& request) const;

  /// Reserves bytes without blocking, for callers with an event loop. Enters the queue and
  /// returns. The reservation holds the bytes if Reserve would not wait. Otherwise the
  /// caller polls TryHold. `patience` and `on_wait` are not used. Returns the errors of
  /// Reserve except kDevice.
  Result<Reservation> Enter(const ReservationRequest& request) const;

  /// Returns the current jobs, in the order of arrival. Propagates errors of ReadLedger.
  Result<std::vector<LedgerJob>> Jobs() const;

 private:
  explicit Ledger(std::string path) : path_(std::move(path)) {}
  Result<Reservation> Admit(const ReservationRequest& request,
                            bool may_wait) const;

  std::string path_;
};

/// Returns the jobs of the ledger at `path`, in the order of arrival. The file need not be
/// writable. Returns kNotFound if the file does not exist, and kIo if it cannot be read or
/// locked. Returns kInvalidArgument if the file is not a ledger, or if the record of a
/// running job is damaged.
Result<std::vector<LedgerJob>> ReadLedger(const std::string& path);

/// Returns the number of bytes of `resource` that `jobs` hold.
Bytes HeldBytes(const std::vector<LedgerJob>& jobs,
                const std::string& resource);

}  // namespace stowage

#endif  // STOWAGE_ADMISSION_ADMISSION_H_
