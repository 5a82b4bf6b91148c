//! `Selection`: rows of chunks in the order of the answer, with their objects.

use std::ops::Range;

use zvf_format::num::usize_from_u32;
use zvf_model::ObjectId;

use super::pieces::{Piece, Pieces};

/// Rows of chunks that a plan selects.
#[derive(Clone, Default)]
pub(crate) struct Selection {
    pub(crate) pieces: Pieces,
    /// Objects or runs of them, in the order of their pieces; `None` if the answer is not divided
    /// into objects.
    pub(crate) spans: Option<Vec<Span>>,
}

/// One object, or a run of one.
#[derive(Clone)]
pub(crate) struct Span {
    pub(crate) id: ObjectId,
    /// Its row in the index.
    pub(crate) row: u64,
    /// Its pieces.
    pub(crate) pieces: Range<usize>,
}

impl Selection {
    pub(crate) fn span_pieces(&self, span: &Span) -> &[Piece] {
        &self.pieces.list[span.pieces.clone()]
    }

    /// Returns the number of rows of a span.
    pub(crate) fn len(&self, span: &Span) -> usize {
        self.span_pieces(span).iter().map(|piece| usize_from_u32(piece.len)).sum()
    }

    /// Adds the pieces of an object, or of a run of one.
    pub(crate) fn push(&mut self, span: &Span, pieces: impl IntoIterator<Item = Piece>) {
        let from = self.pieces.list.len();
        pieces.into_iter().for_each(|piece| self.pieces.push_apart(piece));
        let pieces = from..self.pieces.list.len();
        if !pieces.is_empty() {
            self.spans.get_or_insert_default().push(Span { pieces, ..span.clone() });
        }
    }

    /// Adds all objects of `others`.
    pub(crate) fn extend(&mut self, others: Self) {
        let first = self.pieces.list.len();
        let spans = others.spans.into_iter().flatten().map(|span| Span {
            pieces: span.pieces.start + first..span.pieces.end + first,
            ..span
        });
        self.spans.get_or_insert_default().extend(spans);
        self.pieces.extend(others.pieces);
    }

    /// Retains the pieces that pass `test`; splits objects at the others.
    pub(crate) fn retain_pieces(&self, test: impl Fn(&Piece) -> bool) -> Self {
        let mut retained =
            Self { spans: self.spans.as_ref().map(|_| Vec::new()), ..Self::default() };
        let Some(spans) = &self.spans else {
            let pieces = self.pieces.list.iter().filter(|piece| test(piece));
            pieces.for_each(|piece| retained.pieces.push_apart(*piece));
            return retained;
        };
        for span in spans {
            for run in self.span_pieces(span).split(|piece| !test(piece)) {
                retained.push(span, run.iter().copied());
            }
        }
        retained
    }

    /// Retains the first `limit` rows; for objects, those up to the one with which there are at
    /// least `limit` vertices.
    pub(crate) fn truncate(mut self, limit: usize) -> Self {
        if self.pieces.rows <= limit {
            return self;
        }
        let Some(spans) = &self.spans else {
            self.pieces.truncate(limit);
            return self;
        };
        let (mut rows, mut count) = (0_usize, 0_usize);
        for span in spans {
            rows += self.len(span);
            count += 1;
            if rows >= limit {
                break;
            }
        }
        let end = spans[..count].last().map_or(0, |span| span.pieces.end);
        self.spans.get_or_insert_default().truncate(count);
        self.pieces.list.truncate(end);
        self.pieces.rows = rows;
        self
    }
}
