//! Losses: the parts of a geometry that a format cannot hold.

use zvf_error::Result;
use zvf_format::num::usize_from_u32;
use zvf_model::flow::{Header, Loss};
use zvf_model::{Field, Kind};

use crate::capabilities::{Attributes, GroupSupport, IdSupport, UnitSupport, check_names};
use crate::error::cannot_hold;
use crate::spec::Spec;

/// Returns the contents of `header` that `format` does not support.
///
/// # Errors
///
/// When it cannot hold the kind or the axes at all, or its writer refuses text and there is some.
pub fn find_losses(header: &Header, format: &Spec) -> Result<Vec<Loss>> {
    let (can, name) = (&format.capabilities, format.name);
    if !can.kinds.contains(&header.kind) {
        let what = format!("a {}", header.kind);
        let advice = "write another format: zvf formats lists what each holds";
        return Err(cannot_hold(name, what, advice));
    }
    let axes = header.axes.len();
    if axes < usize_from_u32(can.axes.0) || axes > usize_from_u32(can.axes.1) {
        let advice = "choose other columns of positions, or write CSV or npy";
        return Err(cannot_hold(name, format!("{axes} axes"), advice));
    }
    check_names(header, can.own_names, name)?;
    let note = (can.check)(header)?;
    let (ids, refusal, order_name) = (can.ids, can.refusal, can.order_name);
    let mut losses = Vec::new();
    let positions = header.positions.dtype();
    if can.positions == Attributes::None {
        losses.push(Loss::new(format!("positions are dropped: {name} holds none")));
    } else if !can.positions.keeps(positions) && !is_half(positions, can.positions) {
        losses.push(Loss::new(format!(
            "positions of {positions} become {}: {name} has no {positions}",
            largest_type(can.positions)
        )));
    }
    for (scope, fields, can, names) in [
        ("vertex", &header.fields, can.vertex_attributes, can.vertex_names),
        ("object", &header.object_fields, can.object_attributes, &[]),
    ] {
        // The attribute that is the id of an object, or the order of vertices, is kept as that.
        let is_id = |field: &&Field| {
            let is_id_field = scope == "object" && header.id_field.as_deref() == Some(&*field.name);
            (is_id_field && ids == IdSupport::Bits(64)) || *field.name == *order_name
        };
        let fields = fields.iter().filter(|field| !is_id(field));
        losses.extend(fields.filter_map(|field| match refusal(header, scope, field) {
            Some(why) => Some(dropped_attribute(scope, field, why)),
            None => attribute_loss(scope, field, can, names, name),
        }));
    }
    if let Some(elements) = &header.elements {
        if !can.elements {
            let what = if header.kind == Kind::Mesh { "faces" } else { "edges" };
            losses.push(Loss::new(format!("{what} are dropped: {name} holds none")));
        } else {
            let fields = elements.fields.iter();
            let types = can.element_attributes;
            let names = can.element_names;
            losses.extend(
                fields.filter_map(|field| attribute_loss("element", field, types, names, name)),
            );
            if let Some(width) = elements.width.filter(|w| can.corners > 0 && *w > can.corners) {
                losses.push(Loss::new(format!(
                    "faces of {width} corners are divided: {name} has at most {}",
                    can.corners
                )));
            }
        }
    }
    let ids = match can.ids {
        IdSupport::None => Some(format!("objects are joined: {name} has none")),
        IdSupport::Order if header.id_field.is_some() => {
            Some(format!("ids of objects are dropped: in {name} they are numbered from 0"))
        }
        IdSupport::Order | IdSupport::Bits(_) => None,
    };
    losses.extend(ids.filter(|_| header.objects).map(Loss::new));
    let groups = match can.groups {
        GroupSupport::None => Some(format!("groups are dropped: {name} holds none")),
        GroupSupport::Members if !header.group_fields.is_empty() => {
            Some(format!("attributes of groups are dropped: {name} holds none"))
        }
        GroupSupport::Members | GroupSupport::Attributes => None,
    };
    losses.extend(groups.filter(|_| header.groups).map(Loss::new));
    losses.extend(note);
    if let (Some(unit), UnitSupport::None) = (header.unit(), can.units) {
        losses
            .push(Loss::new(format!("the unit {unit} is not stated: {name} has no place for it")));
    }
    Ok(losses)
}

/// Returns whether `dtype` is half precision that a wider float holds without a loss.
fn is_half(dtype: zvf_metadata::Dtype, can: Attributes) -> bool {
    (dtype.kind, dtype.size) == (zvf_metadata::DtypeKind::Float, 2)
        && match can {
            Attributes::Types(names) => names.iter().any(|name| name.starts_with("float")),
            Attributes::None | Attributes::Numbers | Attributes::All => true,
        }
}

fn dropped_attribute(scope: &str, field: &Field, why: &str) -> Loss {
    Loss::new(format!("{scope} attribute {:?} is dropped: {why}", field.name))
}

fn attribute_loss(
    scope: &str,
    field: &Field,
    can: Attributes,
    names: &[&str],
    name: &str,
) -> Option<Loss> {
    let (column, dtype) = (&field.name, field.column.dtype());
    if !names.is_empty() && !names.contains(&&**column) {
        let why = format!("{name} has a place for {}", names.join(", "));
        return Some(dropped_attribute(scope, field, &why));
    }
    if can == Attributes::None {
        return Some(dropped_attribute(scope, field, &format!("{name} holds none")));
    }
    if can.drops(field) {
        return Some(dropped_attribute(scope, field, &format!("{name} holds no text")));
    }
    if field.categories.is_some() && can != Attributes::All {
        return Some(Loss::new(format!("{scope} attribute {column:?} is written as its codes")));
    }
    (!can.keeps(dtype) && !is_half(dtype, can)).then(|| {
        Loss::new(format!(
            "{scope} attribute {column:?} of {dtype} becomes {}: {name} has no {dtype}",
            largest_type(can)
        ))
    })
}

fn largest_type(can: Attributes) -> &'static str {
    match can {
        Attributes::Types(names) => names.last().copied().unwrap_or("nothing"),
        Attributes::None | Attributes::Numbers | Attributes::All => "a number",
    }
}
