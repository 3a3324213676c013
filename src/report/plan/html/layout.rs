//! Where the boxes of the graph stand: in layers from left to right, by the method of Sugiyama.

use rust_sugiyama::configure::{Config, RankingType};
use rust_sugiyama::from_vertices_and_edges;

/// Boxes and edges of which a layered layout is made; more stand in rows, in the order of the plan.
const MOST_BOXES: usize = 400;
const MOST_EDGES: usize = 1_200;
/// The space between boxes.
const SPACE: f64 = 34.0;
/// The width of the rows.
const ROW: f64 = 1_400.0;

/// The left upper corners of boxes, and the size of all.
pub(super) struct Layout {
    pub(super) corners: Vec<(f64, f64)>,
    pub(super) width: f64,
    pub(super) height: f64,
    /// Whether edges lead from layer to layer, so that they can be drawn.
    pub(super) layered: bool,
}

/// Places boxes of these sizes.
pub(super) fn place(sizes: &[(f64, f64)], edges: &[(u32, u32)]) -> Layout {
    let layered = sizes.len() <= MOST_BOXES && edges.len() <= MOST_EDGES;
    let corners = match layered {
        true => layers(sizes, edges),
        false => rows(sizes),
    };
    let extent = |of: fn((f64, f64)) -> f64| {
        let ends = corners.iter().zip(sizes);
        ends.fold(0.0_f64, |most, (corner, size)| {
            most.max(of(*corner) + of(*size))
        })
    };
    let (width, height) = (extent(|at| at.0), extent(|at| at.1));
    Layout {
        corners,
        width,
        height,
        layered,
    }
}

/// The library lays out from top to bottom: both axes are swapped. Parts that do not hang together stand below each other.
/// Edges that lead back do not count.
fn layers(sizes: &[(f64, f64)], edges: &[(u32, u32)]) -> Vec<(f64, f64)> {
    let numbered = (0..).zip(sizes);
    let boxes: Vec<(u32, (f64, f64))> = numbered.map(|(at, size)| (at, (size.1, size.0))).collect();
    let forward = edges.iter().copied().filter(|(from, to)| from < to);
    let forward: Vec<(u32, u32)> = forward.collect();
    let settings = Config {
        vertex_spacing: SPACE,
        // The other rankings improve until nothing is better, and may never end.
        ranking_type: RankingType::Up,
        ..Config::default()
    };
    let mut parts = from_vertices_and_edges(&boxes, &forward, &settings);
    parts.sort_by_key(|(places, ..)| places.iter().map(|place| place.0).min());
    let mut corners = vec![(0.0, 0.0); sizes.len()];
    let mut top = 0.0;
    for (places, ..) in parts {
        let left_upper = |(at, (across, along)): (usize, (f64, f64))| {
            let (width, height) = sizes[at];
            (at, (along - width / 2.0, across - height / 2.0))
        };
        let places: Vec<(usize, (f64, f64))> = places.into_iter().map(left_upper).collect();
        let least = |of: fn((f64, f64)) -> f64| {
            places
                .iter()
                .fold(f64::INFINITY, |least, place| least.min(of(place.1)))
        };
        let (left, upper) = (least(|at| at.0), least(|at| at.1));
        let mut bottom = top;
        for (at, (x, y)) in places {
            corners[at] = (x - left, y - upper + top);
            bottom = f64::max(bottom, corners[at].1 + sizes[at].1);
        }
        top = bottom + SPACE;
    }
    corners
}

fn rows(sizes: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let (mut x, mut y, mut tallest) = (0.0, 0.0, 0.0_f64);
    let place = |(width, height): &(f64, f64)| {
        if x > 0.0 && x + width > ROW {
            (x, y, tallest) = (0.0, y + tallest + SPACE, 0.0);
        }
        let corner = (x, y);
        x += width + SPACE;
        tallest = tallest.max(*height);
        corner
    };
    sizes.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn overlap(one: ((f64, f64), (f64, f64)), other: ((f64, f64), (f64, f64))) -> bool {
        let apart = |a: f64, length: f64, b: f64, other: f64| a + length <= b || b + other <= a;
        let ((x, y), (width, height)) = one;
        let ((u, v), (wide, high)) = other;
        !apart(x, width, u, wide) && !apart(y, height, v, high)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Also of graphs with circles, which no plan has.
        #[test]
        fn no_two_boxes_overlap_and_the_same_graph_is_laid_out_the_same(
            sizes in prop::collection::vec((10.0..300.0_f64, 10.0..200.0_f64), 1..40),
            ends in prop::collection::vec((0..40_u32, 0..40_u32), 0..80),
        ) {
            let boxes = sizes.len() as u32;
            let mut edges: Vec<(u32, u32)> = ends
                .into_iter()
                .map(|(from, to)| (from % boxes, to % boxes))
                .filter(|(from, to)| from != to)
                .collect();
            edges.sort_unstable();
            edges.dedup();
            let layout = place(&sizes, &edges);
            let placed: Vec<_> = layout.corners.iter().copied().zip(sizes.iter().copied()).collect();
            for (at, one) in placed.iter().enumerate() {
                prop_assert!(one.0.0 >= 0.0 && one.0.1 >= 0.0);
                prop_assert!(!placed[..at].iter().any(|other| overlap(*one, *other)));
            }
            prop_assert_eq!(place(&sizes, &edges).corners, layout.corners);
        }
    }

    #[test]
    fn an_edge_leads_from_left_to_right() {
        let sizes = [(100.0, 40.0), (60.0, 90.0), (30.0, 30.0)];
        let layout = place(&sizes, &[(0, 1), (1, 2)]);
        assert!(layout.corners[0].0 + 100.0 < layout.corners[1].0);
        assert!(layout.corners[1].0 + 60.0 < layout.corners[2].0);
    }

    #[test]
    fn more_boxes_than_a_layout_is_made_of_stand_in_rows() {
        let layout = place(&vec![(200.0, 50.0); MOST_BOXES + 1], &[]);
        assert!(!layout.layered);
        assert!(layout.width <= ROW);
    }
}
