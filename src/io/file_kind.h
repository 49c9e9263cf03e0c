// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "src/io/byte_source.h"
#include "src/io/zip_reader.h"

namespace dpa4::io {

/// True if the file begins like a zip archive, the container of every checkpoint.
bool is_zip(const ByteSource& source);

/// What a file that is no zip archive is, and what to use instead: the rest of a sentence after
/// "PATH: ".
std::string describe_other_file(const ByteSource& source);

/// Path of the object tree inside a checkpoint archive, for example "model/data.pkl". Another kind
/// of archive (a frozen model, NumPy data, ...) is an InputError that says what it is.
std::string find_object_tree(const ZipReader& zip, const std::string& path);

}  // namespace dpa4::io
