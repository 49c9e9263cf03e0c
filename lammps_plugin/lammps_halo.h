// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "pair.h"

#include "src/base/tensor_view.h"
#include "src/model/halo_exchange.h"

namespace dpa4::lammps {

/// Where an atom's row lives: the rank that owns the atom and the row's number there.
struct RowOwner {
  int rank = -1;
  int row = -1;  // -1: that rank has no row for the atom
};

/// HaloExchange through LAMMPS' own forward and reverse communication.
///
/// LAMMPS moves values of atoms; the model has rows of nodes. The map between the two makes this
/// safe for every way LAMMPS communicates: what a rank sends may itself be a ghost that came from a
/// third rank (several swaps in one direction), and a ghost may be an image of the rank's own atom.
///
///   forward   sends the row of the atom; only rows of other ranks' atoms are written
///   reverse   sends, then zeroes, the rows of other ranks' atoms, and zero for images of own
///   atoms;
///             adds what arrives to the atom's row, which for an image is its owner's
///
/// A row wider than a slice travels in several exchanges, so the width of LAMMPS' buffers does not
/// depend on the model.
class LammpsHalo : public model::HaloExchange {
 public:
  /// Numbers (double) an atom sends at a time: one exchange for 512 float32 features, and 2 KiB an
  /// atom in each of LAMMPS' buffers. The pair's comm_forward, comm_reverse and comm_reverse_off.
  static constexpr int kSlice = 256;

  /// @param pair  the style whose pack and unpack functions call those below
  explicit LammpsHalo(LAMMPS_NS::LAMMPS* lmp, LAMMPS_NS::Pair* pair) : lmp_(lmp), pair_(pair) {}

  /// Fills in the entries of ghosts from those of the atoms they are copies of. Collective.
  ///
  /// @param owner  (atoms, ghosts included)
  void exchange_owners(std::vector<RowOwner>& owner);

  /// The rows from now on, until the next call; the view must stay valid. Collective.
  ///
  /// @param row_of_atom  (atoms, ghosts included)  in [0, n_nodes) or -1
  void set_rows(TensorView<const int, 1> row_of_atom, int n_owned, int n_nodes);

  bool active() const override { return active_; }
  void reserve(int) override {}  // rows of any width travel in slices
  void forward(model::NodeRows rows) override;
  void reverse(model::NodeRows rows) override;
  bool any(bool condition) override;

  // What Pair's functions of the same names do.
  int pack_forward(int n, const int* atoms, double* buffer) const;
  void unpack_forward(int n, int first, const double* buffer);
  int pack_reverse(int n, int first, double* buffer);
  void unpack_reverse(int n, const int* atoms, const double* buffer);

 protected:
  /// The columns of all rows that are on their way.
  struct Slice {
    std::byte* data = nullptr;  // column 0 of the slice in row 0
    std::int64_t row_bytes = 0;
    std::int64_t bytes = 0;  // a row's part in this slice
    int doubles = 0;         // the same in LAMMPS' unit, rounded up
    bool single_precision = false;
  };

  /// Sets the slice to one part of the columns after the other and calls exchange(doubles) for
  /// each.
  void in_slices(const model::NodeRows& rows, const std::function<void(int)>& exchange);

  LAMMPS_NS::LAMMPS* lmp_;
  LAMMPS_NS::Pair* pair_;
  TensorView<const int, 1> row_of_atom_;
  int n_owned_ = 0;
  int n_nodes_ = 0;
  bool active_ = false;
  Slice slice_;

 private:
  std::byte* row(int row_number) const { return slice_.data + row_number * slice_.row_bytes; }

  std::vector<RowOwner>* owners_ = nullptr;  // set while owners are exchanged
};

}  // namespace dpa4::lammps
