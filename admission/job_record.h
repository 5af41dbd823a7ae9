#ifndef STOWAGE_ADMISSION_JOB_RECORD_H_
#define STOWAGE_ADMISSION_JOB_RECORD_H_

// A job of a ledger (admission/ledger.h), and the line of text that it is in the file.
//
// Every record is one line of kRecordBytes bytes, padded with spaces, so that a job writes
// its own in place and no other's:
//
//   job 5f0c... held 3 2147483648 8589934592 1700000000 4711 device:0 train small
//
// The fields are a digest, the state, the ticket, the bytes, the capacity, since when, the
// process, the resource and, to the end of the line, the name. A process that dies while it writes leaves
// a line whose digest does not match.
//
//   const std::string line = FormatJobRecord(job);
//   std::optional<LedgerJob> read = ParseJobRecord(line);   // equal to job

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace stowage {

/// One job: bytes of a resource that it holds, or waits for.
struct LedgerJob {
  std::string resource;  // "device:0", "cgroup", any word
  Bytes capacity = 0;    // of the resource, on which its jobs agree
  Bytes bytes = 0;
  std::string name;
  bool is_held = false;  // false: it waits
  int64_t ticket = 0;    // a job with a lower one arrived earlier
  int64_t since = 0;     // that it holds or waits: seconds since 1970, UTC
  /// The process that reserved, as its own PID namespace numbers it. For people: nothing
  /// is decided by it.
  int64_t process = 0;

  friend bool operator==(const LedgerJob&, const LedgerJob&) = default;
};

inline constexpr size_t kRecordBytes = 512;
inline constexpr size_t kMaxResourceBytes = 100;
inline constexpr size_t kMaxJobNameBytes = 256;

/// Error, kInvalidArgument, unless a record can hold the job: a resource of 1 to
/// kMaxResourceBytes bytes without spaces, a name of 1 to kMaxJobNameBytes that neither
/// begins nor ends with a space, no control characters in either, and at least 1 byte. The bytes may
/// exceed the capacity.
Status CheckJob(const LedgerJob& job);

/// kRecordBytes bytes, the last of which ends the line. Precondition: CheckJob.
std::string FormatJobRecord(const LedgerJob& job);

/// Reads a record that FormatJobRecord wrote; absent for any other text.
std::optional<LedgerJob> ParseJobRecord(std::string_view record);

/// "\"train small\" 2.0 GiB (2147483648 bytes) since 2023-11-14T22:13:20Z, process 4711".
std::string DescribeJob(const LedgerJob& job);

/// "2023-11-14T22:13:20Z" of seconds since 1970.
std::string FormatUtc(int64_t seconds);

/// "2.0 GiB (2147483648 bytes)".
std::string FormatExactBytes(Bytes bytes);

}  // namespace stowage

#endif  // STOWAGE_ADMISSION_JOB_RECORD_H_
