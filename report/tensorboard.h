#ifndef STOWAGE_REPORT_TENSORBOARD_H_
#define STOWAGE_REPORT_TENSORBOARD_H_

// Scalars of a training run in TensorBoard's format: records of an event file.
//
// An event file is a sequence of records (TFRecord: length, data, and a CRC-32C of each,
// masked), whose data are messages of type Event (tensorflow/core/util/event.proto):
//
//   std::string file = VersionRecord(seconds);
//   file += ScalarsRecord(seconds, /*step=*/1, {{"loss", 2.3f}, {"lr", 1e-3f}});
//
// TensorBoard reads all files of a folder whose names contain "tfevents". For a run
// resumed from a checkpoint, SessionStartRecord(seconds, step) invalidates the data of
// earlier files from `step` on.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace stowage {

struct EventScalar {
  std::string_view tag;
  float value = 0;
};

/// The first record of a file. `seconds`: wall time, since 1970.
std::string VersionRecord(double seconds);

/// The scalars of one step, all in one event.
std::string ScalarsRecord(double seconds, int64_t step,
                          std::span<const EventScalar> scalars);

/// The start of a session at `step`.
std::string SessionStartRecord(double seconds, int64_t step);

/// A record of `data`.
std::string TfRecord(std::string_view data);

/// CRC-32C (RFC 3720, appendix B.4), by a table of 256 entries.
uint32_t Crc32c(std::string_view bytes);

}  // namespace stowage

#endif  // STOWAGE_REPORT_TENSORBOARD_H_
