#ifndef STOWAGE_DATA_TRAINING_TEXT_H_
#define STOWAGE_DATA_TRAINING_TEXT_H_

// Checks that a file is text in UTF-8 that a language model can be trained on, rather than
// JSON, a table or a container of other files.
//
//   STOWAGE_RETURN_IF_ERROR(CheckTrainingText(text, "novel.txt"));

#include <string>
#include <string_view>

#include "base/result.h"

namespace stowage {

/// Whether the file is JSON lines by its name: .jsonl or .ndjson, in any case.
bool IsJsonLines(std::string_view path);

/// Error kInvalidArgument if `bytes`, of the file in `path`, begin as Parquet, a ZIP archive,
/// a compressed file or another container, which may happen to be valid text.
Status CheckIsNoContainer(std::string_view bytes, const std::string& path);

/// Errors: that of CheckIsNoContainer; kInvalidArgument, with the byte, if `text`, of the file
/// in `path`, is not text in UTF-8.
Status CheckIsText(std::string_view text, const std::string& path);

/// Errors: those of CheckIsText; kInvalidArgument for JSON, whose quotes would be learned: by
/// the file's name, a first line that is an example of JSON lines, or a list of objects.
Status CheckTrainingText(std::string_view text, const std::string& path);

}  // namespace stowage

#endif  // STOWAGE_DATA_TRAINING_TEXT_H_
