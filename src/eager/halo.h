// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "src/eager/tape.h"
#include "src/model/halo_exchange.h"

namespace dpa4::eager {

/// Owned rows -> owned rows followed by the owners' rows of all copies, (n_nodes, ...). Collective,
/// in both directions: the reverse pass sends the copies' gradients home.
Var extend_to_copies(Tape& tape, const Var& owned, int64_t n_nodes, model::HaloExchange& halo);

/// Adds the partial rows of copies to their owners, then gives every copy the total. (n_nodes, ...)
Var complete_over_ranks(Tape& tape, const Var& partial, model::HaloExchange& halo);

}  // namespace dpa4::eager
