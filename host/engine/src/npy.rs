//! A reader for the `.npy` files of the reference set: format 1.0, C order, `<f4`, `<f8`, `<i8`.

use std::path::Path;

/// An array widened to f64 (the reference's integers are small).
pub(crate) struct Array {
    /// Lengths of the dimensions.
    pub(crate) shape: Vec<usize>,
    /// Values in C order.
    pub(crate) data: Vec<f64>,
}

/// Reads a file of the reference set; panics where it is not what the set's scripts write, as the suite cannot go on.
pub(crate) fn read(path: &Path) -> Array {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    parse(&bytes).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

fn parse(bytes: &[u8]) -> Result<Array, String> {
    let rest = bytes.strip_prefix(b"\x93NUMPY\x01\x00").ok_or("no .npy 1.0 header")?;
    let (len, rest) = rest.split_first_chunk::<2>().ok_or("cut header")?;
    let (header, body) = rest.split_at_checked(usize::from(u16::from_le_bytes(*len))).ok_or("cut header")?;
    let header = str::from_utf8(header).map_err(|e| e.to_string())?;
    if !header.contains("'fortran_order': False") {
        return Err(format!("not in C order: {header}"));
    }
    let shape = header.split_once("'shape': (").and_then(|(_, s)| s.split_once(')')).ok_or("no shape")?.0;
    let shape: Vec<usize> = shape
        .split(',')
        .map(str::trim)
        .filter(|d| !d.is_empty())
        .map(|d| d.parse::<usize>().map_err(|e| e.to_string()))
        .collect::<Result<_, _>>()?;
    let data: Vec<f64> = if header.contains("'<f4'") {
        body.as_chunks::<4>().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect()
    } else if header.contains("'<f8'") {
        body.as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b)).collect()
    } else if header.contains("'<i8'") {
        body.as_chunks::<8>().0.iter().map(|b| i64::from_le_bytes(*b) as f64).collect()
    } else {
        return Err(format!("unsupported type: {header}"));
    };
    if data.len() != shape.iter().product::<usize>() {
        return Err(format!("{} values for shape {shape:?}", data.len()));
    }
    Ok(Array { shape, data })
}
