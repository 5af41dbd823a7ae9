#ifndef STOWAGE_REPORT_TENSORBOARD_H_
#define STOWAGE_REPORT_TENSORBOARD_H_

// Writes scalars of a training run in TensorBoard's format, as records of an event file.
//
// An event file is a sequence of records. Each record (TFRecord) consists of a length, the masked
// CRC-32C of the length, data, and the masked CRC-32C of the data. The data is a message of type
// Event (tensorflow/core/util/event.proto):
//
//   std::string file = VersionRecord(seconds);
//   file += ScalarsRecord(seconds, /*step=*/1, {{"loss", 2.3f}, {"lr", 1e-3f}});
//
// TensorBoard reads all files of a folder whose names contain "tfevents". If a run is resumed from
// a checkpoint, it writes SessionStartRecord(seconds, step) to a new file. TensorBoard then ignores
// the data of earlier files from `step` on.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace stowage {

struct EventScalar {
  std::string_view tag;
  float value = 0;
};

/// Returns the record with which a file must begin. `seconds`, here and below, is the time of the
/// event, in seconds since 1970.
std::string VersionRecord(double seconds);

/// Returns a record that contains `scalars` as the scalars of step `step`.
std::string ScalarsRecord(double seconds, int64_t step,
                          std::span<const EventScalar> scalars);

/// Returns a record that marks the start of a session at `step`.
std::string SessionStartRecord(double seconds, int64_t step);

/// Returns a TFRecord that contains `data`.
std::string TfRecord(std::string_view data);

/// Returns the CRC-32C (RFC 3720, appendix B.4) of `bytes`, computed with a table of 256
/// entries.
uint32_t Crc32c(std::string_view bytes);

}  // namespace stowage

#endif  // STOWAGE_REPORT_TENSORBOARD_H_
