#ifndef STOWAGE_BASE_RUN_FILES_H_
#define STOWAGE_BASE_RUN_FILES_H_

// The files that a run reads and the files that it will write: none is both.
//
// A command calls KeepInputs() first. From then on InputFile and ReadFile note each file
// that they open, and OutputFile::Claim each that it claims. To claim a file that was
// opened is an error, and so is to open one that was claimed. It does not matter which of
// the two comes first, nor how the file is named: by an option, by a symbolic link, or in
// another file, as the tensors beside an ONNX file and the shards of published weights are.
// (A hard link is another file: to replace one leaves the other as it is.)
//
//   KeepInputs();
//   Result<std::string> text = ReadFile("model.data");
//   Result<OutputFile> file = OutputFile::Claim("model.data");  // an error
//
// A program that uses the library may read a file and replace it later; it does not call
// KeepInputs(). All functions may be called from several threads.

#include <string>

#include "base/result.h"

namespace stowage {

void KeepInputs();

/// Whether opening or claiming a file is noted. The run's own files are not: a log that
/// goes on is read and written.
enum class FileUse { kNoted, kOwn };

/// Notes that the file at `path` is read. Error, kInvalidArgument: it was claimed to be
/// written.
Status NoteInput(const std::string& path);

/// Notes that `place`, with its links followed, is claimed to be written; `path` is its
/// name in messages. Error, kInvalidArgument: it was opened to be read.
Status NoteOutput(const std::string& path, const std::string& place);

/// The same of every file whose place is `prefix`, then digits, then `suffix`, as those
/// of the checkpoints of steps, "/a/run.step-100.safetensors". Error as well: one that
/// was claimed by NoteOutput; and NoteOutput refuses these.
Status NoteOutputs(const std::string& path, const std::string& prefix,
                   const std::string& suffix);

/// Notes that the run makes files in the folder at `path`, and makes it, with its parents,
/// where it is not there. Error, kInvalidArgument: one of them was claimed to be a file;
/// and NoteOutput refuses to claim them afterwards.
Status NoteFolder(const std::string& path);

}  // namespace stowage

#endif  // STOWAGE_BASE_RUN_FILES_H_
